import torch
from torch import nn


class EarlyStopping:
    def __init__(self, patience=5):
        self.patience, self.best, self.bad, self.weights = patience, float("inf"), 0, None

    def update(self, value, network):
        if value < self.best:
            self.best, self.bad = value, 0
            self.weights = {name: tensor for name, tensor in network.state_dict().items()}
        else:
            self.bad += 1
        return self.bad >= self.patience


torch.manual_seed(0)
x, y = torch.randn(400, 10), torch.randn(400, 1)
y = y * 0.3 + x[:, :1]
network = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
stopper = EarlyStopping()
for epoch in range(25):
    network.train()
    for part in torch.randperm(300).split(50):
        optimizer.zero_grad()
        nn.functional.mse_loss(network(x[part]), y[part]).backward()
        optimizer.step()
    network.eval()
    with torch.no_grad():
        score = nn.functional.mse_loss(network(x[300:]), y[300:]).item()
    if stopper.update(score, network):
        break
network.load_state_dict(stopper.weights)
print("best", stopper.best)
