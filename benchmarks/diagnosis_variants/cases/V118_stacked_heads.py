import torch
from torch import nn

torch.manual_seed(22)


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.SiLU())
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Linear(32, 5), nn.Softmax(dim=1)) for _ in range(3)
        )

    def forward(self, x):
        h = self.body(x)
        return torch.stack([head(h) for head in self.heads], 1)


net = Heads()
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True)
for step in range(80):
    x = torch.randn(40, 10)
    y = torch.stack([x[:, k : k + 5].argmax(1) for k in range(3)], 1)
    scores = net(x)
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
