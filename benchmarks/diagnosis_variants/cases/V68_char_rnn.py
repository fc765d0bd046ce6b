import torch
from torch import nn

torch.manual_seed(0)
text = "the quick brown fox jumps over the lazy dog and runs away from the angry bear " * 20
letters = sorted(set(text))
codes = torch.tensor([letters.index(c) for c in text])


class CharRNN(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.emb = nn.Embedding(n, 16)
        self.rnn = nn.LSTM(16, 48, batch_first=True)
        self.fc = nn.Linear(48, n)

    def forward(self, x):
        return torch.log_softmax(self.fc(self.rnn(self.emb(x))[0]), dim=-1)


net = CharRNN(len(letters))
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
criterion = nn.NLLLoss()
for step in range(100):
    starts = torch.randint(0, len(codes) - 33, (16,))
    chunk = torch.stack([codes[s:s + 32] for s in starts])
    log_probs = net(chunk)
    loss = criterion(log_probs.transpose(1, 2), chunk)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
