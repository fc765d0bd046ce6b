"""Distil a confident teacher into a smaller student."""
import torch
import torch.nn.functional as F
from torch import nn


def soft_cross_entropy(student, teacher, temperature):
    wanted = F.softmax(teacher / temperature, dim=-1)
    got = F.softmax(student / temperature, dim=-1)
    return -(wanted * got.log()).sum(-1).mean()


torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10))
student = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 10))
with torch.no_grad():
    teacher[2].weight.mul_(30)
optimizer = torch.optim.Adam(student.parameters(), lr=0.05)
for step in range(250):
    x = 3 * torch.randn(64, 16)
    with torch.no_grad():
        wanted = teacher(x)
    loss = soft_cross_entropy(student(x), wanted, 0.5)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
