"""Monte-Carlo dropout: dropout is kept on purpose for the uncertainty of predictions."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
for step in range(150):
    x = torch.rand(64, 1) * 4 - 2
    loss = nn.functional.mse_loss(net(x), x.sin() + 0.1 * torch.randn_like(x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
net.eval()
for module in net.modules():
    if isinstance(module, nn.Dropout):
        module.train()
with torch.no_grad():
    grid = torch.linspace(-4, 4, 9)[:, None]
    samples = torch.stack([net(grid) for _ in range(20)])
print(loss.item(), samples.std(0).flatten().tolist())
