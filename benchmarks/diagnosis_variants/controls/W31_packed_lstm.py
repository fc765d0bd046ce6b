import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence


class Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 16, padding_idx=0)
        self.lstm = nn.LSTM(16, 24, num_layers=2, dropout=0.2, batch_first=True)
        self.fc = nn.Linear(24, 1)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.emb(ids), lengths, batch_first=True, enforce_sorted=False)
        _, (state, _) = self.lstm(packed)
        return self.fc(state[-1]).squeeze(1)


torch.manual_seed(0)
net = Sentiment()
optimizer = torch.optim.RMSprop(net.parameters(), lr=2e-3)
for step in range(80):
    rows = [torch.randint(1, 50, (int(n),)) for n in torch.randint(2, 15, (16,))]
    lengths = torch.tensor([len(row) for row in rows])
    labels = torch.tensor([float((row > 25).float().mean() > 0.5) for row in rows])
    loss = nn.functional.binary_cross_entropy_with_logits(net(pad_sequence(rows, batch_first=True), lengths), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
