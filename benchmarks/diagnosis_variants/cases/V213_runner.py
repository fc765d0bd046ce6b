import copy

import torch
from torch import nn


def init_weights(m):
    if isinstance(m, nn.Linear):
        nn.init.kaiming_normal_(m.weight)
        nn.init.zeros_(m.bias)


class Runner:
    def __init__(self, model, checkpoint=None):
        self.model = model
        if checkpoint is not None:
            self.model.load_state_dict(checkpoint)
        self.setup()

    def setup(self):
        self.model.apply(init_weights)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def fit(self, x, y, steps):
        for step in range(steps):
            i = torch.randint(0, len(x), (64,))
            loss = nn.functional.mse_loss(self.model(x[i]), y[i])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if step % 40 == 0:
                print(step, loss.item())
        return copy.deepcopy(self.model.state_dict())


def network():
    return nn.Sequential(nn.Linear(10, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 3))


torch.manual_seed(0)
x, w = torch.randn(1000, 10), torch.randn(10, 3)
pretrained = Runner(network()).fit(x, torch.tanh(x @ w), 150)
print("fine-tuning")
Runner(network(), pretrained).fit(x, torch.tanh(x @ w) + 0.1, 80)
