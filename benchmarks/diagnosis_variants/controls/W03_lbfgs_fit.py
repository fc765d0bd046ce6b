import torch
from torch import nn

torch.manual_seed(52)
x = torch.linspace(-3, 3, 120)[:, None]
y = x.sin()
model = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=8, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    return loss


for step in range(25):
    loss = optimizer.step(closure)
print(loss.item())
