"""An estimator in the manner of scikit-learn; partial_fit is called for each chunk."""
import torch
from torch import nn


class Estimator:
    def __init__(self, width=32, rate=5e-3):
        self.net = nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 1))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=rate)

    def _setup(self):
        for module in self.net:
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()

    def partial_fit(self, x, y, epochs=10):
        self._setup()
        for _ in range(epochs):
            loss = nn.functional.mse_loss(self.net(x).squeeze(1), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()


torch.manual_seed(0)
estimator = Estimator()
for chunk in range(10):
    x = torch.randn(128, 6)
    print(chunk, estimator.partial_fit(x, x[:, 0] - x[:, 1] * x[:, 2]))
