import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(38)
text = nn.EmbeddingBag(100, 24)
image = nn.Linear(30, 24)
opt = torch.optim.AdamW([*text.parameters(), *image.parameters()], lr=3e-3)
codes = torch.randn(100, 30)
for step in range(100):
    ids = torch.randint(0, 100, (32, 3))
    seen = codes[ids].mean(1) + 0.1 * torch.randn(32, 30)
    t = F.normalize(text(ids), dim=1).detach()
    i = F.normalize(image(seen), dim=1)
    loss = F.cross_entropy(i @ t.t() * 10, torch.arange(32))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 25 == 0:
        print(step, loss.item())
