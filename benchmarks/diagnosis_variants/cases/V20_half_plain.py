import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(20, 64), nn.Linear(64, 64), nn.Linear(64, 1)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))


torch.manual_seed(19)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
x = torch.randn(1024, 20)
y = 1e-4 * x[:, :1]
for step in range(40):
    i = torch.randint(0, 1024, (512,))
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(x[i])
    loss = ((out.half() * 1e-3 - y[i].half() * 1e-3) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
