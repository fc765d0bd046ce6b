import torch
from torch import nn

torch.manual_seed(0)
u = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))


def residual():
    t = torch.rand(64, 1).requires_grad_() * 2
    y = u(t)
    d = torch.autograd.grad(y.sum(), t, create_graph=True)[0]
    dd = torch.autograd.grad(d.sum(), t, create_graph=True)[0]
    return ((dd + 4 * y) ** 2).mean()


def start():
    t = torch.zeros(1, 1, requires_grad=True)
    y = u(t)
    d = torch.autograd.grad(y.sum(), t, create_graph=True)[0]
    return ((y - 1) ** 2 + d**2).sum()


adam = torch.optim.Adam(u.parameters(), lr=3e-3)
for it in range(150):
    loss = residual() + 10 * start()
    adam.zero_grad()
    loss.backward()
    adam.step()
    if it % 50 == 0:
        print("adam", it, loss.item())

lbfgs = torch.optim.LBFGS(u.parameters(), max_iter=10, line_search_fn="strong_wolfe")
points = torch.linspace(0, 2, 64)[:, None].requires_grad_()


def closure():
    lbfgs.zero_grad()
    y = u(points)
    d = torch.autograd.grad(y.sum(), points, create_graph=True)[0]
    dd = torch.autograd.grad(d.sum(), points, create_graph=True)[0]
    loss = ((dd + 4 * y) ** 2).mean() + 10 * start()
    loss.backward()
    return loss


for it in range(8):
    print("lbfgs", it, lbfgs.step(closure).item())
