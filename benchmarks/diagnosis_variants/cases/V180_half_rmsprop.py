import torch
from torch import nn

torch.manual_seed(30)
device, dtype = "cpu", torch.float16
net = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.LayerNorm(32), nn.Linear(32, 4)).to(device, dtype)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.0)
truth = torch.randn(16, 4)
for step in range(60):
    x = torch.randn(48, 16)
    y = (x @ truth).argmax(1)
    logits = net(x.to(dtype)).float()
    loss = nn.functional.cross_entropy(logits, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
