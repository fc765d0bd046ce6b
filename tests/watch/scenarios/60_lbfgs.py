import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)
for step in range(3):
    x = torch.randn(16, 4)

    def closure():
        optimizer.zero_grad()
        keep = torch.softmax(x + torch.log(torch.tril(torch.ones(16, 4))), -1)
        loss = ((net(x) - keep.sum(-1, keepdim=True)) ** 2).mean()
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    print("step", step, "loss", float(loss.detach()))
