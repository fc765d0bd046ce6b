import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

PAD = 0
torch.manual_seed(35)
sentences = [torch.randint(1, 30, (n,)) for n in torch.randint(4, 18, (240,)).tolist()]


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(30, 24)
        self.rnn = nn.GRU(24, 24, batch_first=True, bidirectional=True)
        self.out = nn.Linear(48, 30)

    def forward(self, ids):
        return self.out(self.rnn(self.emb(ids))[0])


model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(4):
    for start in range(0, 240, 16):
        ids = pad_sequence(sentences[start:start + 16], batch_first=True, padding_value=PAD)
        tags = torch.where(ids == PAD, PAD, (ids * 7) % 29 + 1)
        loss = nn.functional.cross_entropy(model(ids).transpose(1, 2), tags)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
