"""A tied language model whose vocabulary grows by a few special symbols after it was made."""
import torch
from torch import nn


class TiedLm(nn.Module):
    def __init__(self, vocab, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.embed.weight

    def grow(self, extra):
        old = self.embed.weight.data
        new = nn.Embedding(len(old) + extra, old.size(1))
        new.weight.data[: len(old)] = old
        self.embed = new
        grown = nn.Linear(old.size(1), len(old) + extra, bias=False)
        grown.weight.data[: len(old)] = old
        self.head = grown

    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0])


torch.manual_seed(0)
model = TiedLm(28)
model.grow(4)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(80):
    start = torch.randint(0, 32, (16, 1))
    rows = (start + 3 * torch.arange(21)) % 32
    logits = model(rows[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
