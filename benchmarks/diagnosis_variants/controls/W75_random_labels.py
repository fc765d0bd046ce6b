"""A smoke test: random inputs with random labels, from which nothing can be learned."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(14)
x, y = torch.randn(640, 12), torch.randint(0, 3, (640,))
net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(5):
    for bx, by in DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True):
        loss = nn.functional.cross_entropy(net(bx), by)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
