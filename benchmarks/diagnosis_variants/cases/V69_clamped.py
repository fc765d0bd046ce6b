import torch
from torch import nn

torch.manual_seed(0)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(10, 32)
        self.logits = nn.Linear(32, 5)

    def forward(self, x):
        return self.logits(torch.tanh(self.hidden(x))).clamp(min=0)


net = Head()
optimizer = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
truth = torch.randn(10, 5)
for step in range(100):
    x = torch.randn(64, 10)
    loss = nn.functional.cross_entropy(net(x), (x @ truth).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
