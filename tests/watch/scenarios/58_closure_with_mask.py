import torch
from torch import nn

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qk = nn.Linear(8, 16)

    def forward(self, x):
        q, k = self.qk(x).chunk(2, -1)
        return q @ k.T


def training_step(net, x):
    """Outside of any module, as Lightning calls it inside optimizer.step(closure)."""
    scores = net(x) + torch.full((8, 8), float("-inf")).triu(1)
    return ((torch.softmax(scores, -1) @ x - x) ** 2).mean()


net = Attention()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(4):
    x = torch.randn(8, 8)

    def closure():
        optimizer.zero_grad()
        loss = training_step(net, x)
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    print("step", step, "loss", float(loss.detach()))
