"""An own training loop with gradient accumulation and callbacks."""
import torch
from torch import nn


class Callback:
    def after_backward(self, loop): ...

    def after_step(self, loop): ...


class ClearGradients(Callback):
    def after_backward(self, loop):
        loop.optimizer.zero_grad()


class PrintLoss(Callback):
    def after_step(self, loop):
        if loop.steps % 10 == 0:
            print(loop.steps, loop.loss)


class Loop:
    def __init__(self, model, optimizer, callbacks, every=4):
        self.model, self.optimizer, self.callbacks, self.every = model, optimizer, callbacks, every
        self.steps, self.loss = 0, 0.0

    def emit(self, name):
        for callback in self.callbacks:
            getattr(callback, name)(self)

    def run(self, batches):
        for index, (x, y) in enumerate(batches, start=1):
            loss = nn.functional.binary_cross_entropy_with_logits(self.model(x).squeeze(1), y)
            (loss / self.every).backward()
            self.loss = loss.item()
            if index % self.every:
                continue
            self.emit("after_backward")
            self.optimizer.step()
            self.steps += 1
            self.emit("after_step")


def images(n):
    for _ in range(n):
        y = torch.randint(0, 2, (12,)).float()
        x = torch.randn(12, 1, 10, 10)
        x[:, :, 3:6, 3:6] += y[:, None, None, None]
        yield x, y


torch.manual_seed(103)
net = nn.Sequential(
    nn.Conv2d(1, 8, 3), nn.PReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.PReLU(), nn.Flatten(), nn.LazyLinear(1)
)
net(torch.zeros(1, 1, 10, 10))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
Loop(net, opt, [ClearGradients(), PrintLoss()]).run(images(200))
