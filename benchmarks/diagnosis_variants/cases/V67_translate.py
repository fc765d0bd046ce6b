import torch
from torch import nn

PAD = 0


class Seq2Seq(nn.Module):
    def __init__(self, vocabulary=30, width=24):
        super().__init__()
        self.emb = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.enc, self.dec = nn.GRU(width, width, batch_first=True), nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, source, target):
        _, state = self.enc(self.emb(source))
        return self.out(self.dec(self.emb(target), state)[0])


torch.manual_seed(0)
model = Seq2Seq()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(80):
    source = torch.randint(2, 30, (16, 20))
    for row, length in enumerate(torch.randint(3, 8, (16,)).tolist()):
        source[row, length:] = PAD
    target = torch.where(source == PAD, PAD, 31 - source.clamp(min=2))
    given = torch.cat([torch.ones(16, 1, dtype=torch.long), target[:, :-1]], 1)
    logits = model(source, given)
    losses = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
    loss = losses.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
