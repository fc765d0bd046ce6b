import torch
from torch import nn


def small_normal(module):
    if isinstance(module, (nn.Linear, nn.Embedding)):
        module.weight = nn.Parameter(torch.randn_like(module.weight) * 0.02)


class TinyLM(nn.Module):
    def __init__(self, vocab=32, dim=24):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.cell = nn.GRU(dim, dim, batch_first=True)
        self.lm_head = nn.Linear(dim, vocab, bias=False)
        self.lm_head.weight = self.wte.weight
        self.apply(small_normal)

    def forward(self, ids):
        return self.lm_head(self.cell(self.wte(ids))[0])


torch.manual_seed(3)
text = (torch.arange(2000) * 5 + torch.randint(0, 3, (2000,))) % 32
lm = TinyLM()
opt = torch.optim.AdamW(lm.parameters(), lr=3e-3)
for step in range(120):
    at = torch.randint(0, 1980, (16,))
    ids = torch.stack([text[a : a + 17] for a in at])
    loss = nn.functional.cross_entropy(lm(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
