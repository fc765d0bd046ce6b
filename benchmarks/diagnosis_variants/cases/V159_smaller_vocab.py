import torch
from torch import nn


class TinyLM(nn.Module):
    def __init__(self, vocab=60, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, t):
        return self.head(self.rnn(self.embed(t))[0])


def shrink(model, keep):
    model.embed.weight = nn.Parameter(model.embed.weight[:keep].detach().clone())
    model.head.weight = nn.Parameter(model.head.weight[:keep].detach().clone())


torch.manual_seed(502)
model = TinyLM()
shrink(model, 40)
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(100):
    start = torch.randint(0, 40, (24, 1))
    text = (start + torch.arange(16) * 3) % 40
    loss = nn.functional.cross_entropy(model(text[:, :-1]).transpose(1, 2), text[:, 1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
