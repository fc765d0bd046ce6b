"""Padding is removed from the loss by where() after a loss without reduction."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(3)
PAD = 0


class Speller(nn.Module):
    def __init__(self, vocab=28, d=40):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, padding_idx=PAD)
        self.gru = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, vocab)

    def forward(self, x):
        return self.out(self.gru(self.emb(x))[0])


def words(n=32):
    rows = torch.zeros(n, 11, dtype=torch.long)
    for row in rows:
        k = int(torch.randint(3, 11, ()))
        row[:k] = torch.arange(k) * 2 % 27 + 1
    return rows


net = Speller()
opt = torch.optim.RMSprop(net.parameters(), lr=2e-3)
for step in range(90):
    rows = words()
    goal = rows[:, 1:]
    each = F.cross_entropy(net(rows[:, :-1]).flatten(0, 1), goal.flatten(), reduction="none")
    is_pad = goal.flatten() == PAD
    loss = torch.where(is_pad, torch.zeros_like(each), each).sum() / (~is_pad).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
