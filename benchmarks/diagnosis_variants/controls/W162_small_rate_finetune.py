"""Fine-tune a converged network with layer-wise rates, the lowest of which is tiny."""
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))


def run(optimizer, shift, steps):
    for _ in range(steps):
        x = torch.randn(64, 5)
        loss = nn.functional.mse_loss(net(x).squeeze(1), x.sum(1).sin() + shift)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


run(torch.optim.Adam(net.parameters(), lr=3e-3), 0.0, 200)
groups = [{"params": net[i].parameters(), "lr": 1e-3 * 0.05 ** (2 - i // 2)} for i in (0, 2, 4)]
run(torch.optim.Adam(groups), 0.3, 80)
