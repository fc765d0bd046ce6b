import torch
from torch import nn

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 6))
optimizer = torch.optim.SGD(student.parameters(), lr=0.5, momentum=0.9)
truth = torch.randn(10, 6)


def soft_loss(logits, wanted, temperature=0.05):
    p = torch.softmax(logits / temperature, dim=1)
    return -(wanted * p.log()).sum(dim=1).mean()


for step in range(100):
    x = torch.randn(64, 10) * 3
    wanted = torch.softmax(x @ truth, dim=1)
    loss = soft_loss(student(x), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
