import torch
from torch import nn


class Melody(nn.Module):
    def __init__(self, notes=24, dim=32, length=20):
        super().__init__()
        self.note = nn.Embedding(notes, dim)
        self.place = nn.Embedding(length, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True)
        self.core = nn.TransformerEncoder(layer, 2)
        self.next = nn.Linear(dim, notes)
        mask = torch.tril(torch.ones(length, length, dtype=torch.bool), diagonal=-1)
        self.register_buffer("mask", mask)

    def forward(self, x):
        t = x.shape[1]
        h = self.note(x) + self.place(torch.arange(t))
        return self.next(self.core(h, mask=self.mask[:t, :t]))


torch.manual_seed(321)
songs = (torch.randint(0, 24, (200, 1)) + torch.randint(-2, 3, (200, 20)).cumsum(1)) % 24
model = Melody()
opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
for epoch in range(6):
    for part in torch.randperm(200).split(25):
        x = songs[part]
        loss = nn.functional.cross_entropy(model(x[:, :-1]).transpose(1, 2), x[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
