import torch
from torch import nn


class EarlyStopping:
    def __init__(self, patience=60):
        self.patience, self.best, self.bad, self.weights = patience, float("inf"), 0, None

    def __call__(self, value, model):
        if value < self.best:
            self.best, self.bad = value, 0
            self.weights = {k: v.detach() for k, v in model.named_parameters()}
        else:
            self.bad += 1
        return self.bad >= self.patience


torch.manual_seed(2)
x = torch.linspace(-3, 3, 80).unsqueeze(1)
y = torch.sin(2 * x) + 0.3 * torch.randn_like(x)
xv = torch.rand(40, 1) * 6 - 3
yv = torch.sin(2 * xv)
model = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
opt = torch.optim.AdamW(model.parameters(), lr=2e-2, weight_decay=1e-4)
stopper = EarlyStopping()
for epoch in range(400):
    loss = nn.functional.smooth_l1_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        val = nn.functional.mse_loss(model(xv), yv).item()
    if stopper(val, model):
        break
with torch.no_grad():
    for name, p in model.named_parameters():
        p.copy_(stopper.weights[name])
    print("restored", nn.functional.mse_loss(model(xv), yv).item(), "best was", stopper.best)
