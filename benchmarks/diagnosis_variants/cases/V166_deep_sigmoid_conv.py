import torch
from torch import nn

torch.manual_seed(510)


def block(cin, cout):
    return [nn.Conv1d(cin, cout, 3, padding=1), nn.Sigmoid()]


body = nn.Sequential(*block(2, 12), *[m for _ in range(13) for m in block(12, 12)])
head = nn.Linear(12, 4)
opt = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1, momentum=0.9)
t = torch.linspace(0, 6.28, 40)
for step in range(100):
    y = torch.randint(0, 4, (32,))
    x = torch.stack([torch.sin((y[:, None] + 1) * t), torch.cos((y[:, None] + 1) * t)], 1) + 0.1 * torch.randn(32, 2, 40)
    loss = nn.functional.cross_entropy(head(body(x).mean(-1)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
