import torch
from torch import nn

torch.manual_seed(0)


class TrainingStep:
    """A closure that is an object, as Lightning's is; in step 2 it divides 0 by 0."""

    def __init__(self, net, optimizer, x, width):
        self.net, self.optimizer, self.x, self.width = net, optimizer, x, width

    def __call__(self):
        self.optimizer.zero_grad()
        with torch.enable_grad():
            scores = self.x + torch.full((8, 8), float("-inf")).triu(1)
            error = (self.net(self.x) - torch.softmax(scores, -1) @ self.x) ** 2
            loss = ((error - error) / self.width + error).mean()
            loss.backward()
        return loss


net = nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(4):
    width = torch.full((8, 1), float(step != 2))
    loss = optimizer.step(TrainingStep(net, optimizer, torch.randn(8, 8), width))
    print("step", step, "loss", float(loss.detach()))
