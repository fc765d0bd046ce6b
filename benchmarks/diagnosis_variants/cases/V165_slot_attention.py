import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.out = nn.Linear(dim, 5)

    def forward(self, questions, memory):
        scores = self.q(questions) @ self.k(memory).transpose(-1, -2) / 24**0.5
        weights = scores.softmax(0)
        return self.out(weights @ self.v(memory))


torch.manual_seed(508)
reader = Reader()
opt = torch.optim.Adam(reader.parameters(), lr=3e-3)
table = torch.randn(20, 12)
for step in range(120):
    key = torch.stack([torch.randperm(20)[:6] for _ in range(32)])
    value = torch.randint(0, 5, (32, 6))
    memory = torch.cat([table[key], nn.functional.one_hot(value, 12).float()], -1)
    ask = torch.randint(0, 6, (32, 2))
    questions = torch.cat([table[key.gather(1, ask)], torch.zeros(32, 2, 12)], -1)
    logits = reader(questions, memory)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), value.gather(1, ask).flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
