"""An own Trainer that evaluates every few steps."""
import torch
from torch import nn


class Trainer:
    def __init__(self, model, optimizer, source):
        self.model, self.optimizer, self.source = model, optimizer, source
        self.step = 0

    def fit(self, steps, evaluate_every):
        self.model.train()
        while self.step < steps:
            self.training_step(*self.source())
            self.step += 1
            if self.step % evaluate_every == 0:
                print(self.step, self.evaluate())

    def training_step(self, x, y):
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(x), y).backward()
        self.optimizer.step()

    @torch.inference_mode()
    def evaluate(self):
        self.model.eval()
        x, y = self.source()
        return (self.model(x).argmax(-1) == y).float().mean().item()


def source():
    y = torch.randint(0, 5, (32,))
    return torch.randn(32, 1, 12, 12) + y[:, None, None, None] * 0.2, y


torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout2d(0.2), nn.Flatten(), nn.Linear(800, 5)
)
Trainer(model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9), source).fit(120, evaluate_every=20)
