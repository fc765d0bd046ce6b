import torch
from torch import nn

torch.manual_seed(6)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
params = list(model.parameters())
average = [p.detach().clone() for p in params]
opt = torch.optim.SGD(params, lr=0.05, momentum=0.9)
x, x_val = torch.randn(400, 8), torch.randn(100, 8)
f = lambda a: (a[:, :1] * a[:, 1:2]).tanh()  # noqa: E731
good, lowest = None, float("inf")
for epoch in range(20):
    for i in torch.randperm(400).split(40):
        loss = nn.functional.mse_loss(model(x[i]), f(x[i]))
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            for a, p in zip(average, params):
                a.lerp_(p, 0.1)
    with torch.no_grad():
        kept = [p.clone() for p in params]
        for a, p in zip(average, params):
            p.copy_(a)
        score = nn.functional.mse_loss(model(x_val), f(x_val)).item()
        for k, p in zip(kept, params):
            p.copy_(k)
        if score < lowest:
            good, lowest = [p.clone() for p in params], score
        elif score > 1.5 * lowest:
            for b, p in zip(good, params):
                p.copy_(b)
    print(epoch, loss.item(), score)
