import torch
from torch import nn


class EarlyStop:
    def __init__(self, patience):
        self.patience, self.score, self.bad, self.best_weights = patience, None, 0, None

    def __call__(self, score, model):
        if self.score is None or score < self.score:
            self.score, self.bad = score, 0
            self.best_weights = model.state_dict().copy()
        else:
            self.bad += 1
        return self.bad >= self.patience


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
x = torch.randn(40, 4)
y = x.sum(1, keepdim=True).sin() + 0.5 * torch.randn(40, 1)
held = torch.randn(60, 4)
stop = EarlyStop(25)
for epoch in range(150):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        score = nn.functional.mse_loss(model(held), held.sum(1, keepdim=True).sin()).item()
    if stop(score, model):
        break
model.load_state_dict(stop.best_weights)
print(epoch, stop.score)
