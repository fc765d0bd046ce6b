import torch
from torch import nn


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.bad, self.low, self.best = patience, 0, float("inf"), None

    def __call__(self, loss, model):
        if loss < self.low:
            self.low, self.bad = loss, 0
            self.best = {name: value for name, value in model.state_dict().items()}
        else:
            self.bad += 1
        return self.bad > self.patience


torch.manual_seed(27)
x = torch.randn(300, 8)
y = x[:, :2].prod(1, keepdim=True) + 0.3 * torch.randn(300, 1)
model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
stopping = EarlyStopping(5)
for epoch in range(40):
    for i in torch.randperm(200).split(40):
        loss = nn.functional.mse_loss(model(x[i]), y[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        held_out = nn.functional.mse_loss(model(x[200:]), y[200:]).item()
    if stopping(held_out, model):
        break
model.load_state_dict(stopping.best)
print(epoch, stopping.low)
