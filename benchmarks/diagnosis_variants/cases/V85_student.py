"""Distil a convolutional teacher into a smaller student."""
import torch
from torch import nn
from torch.nn import functional as F


def conv_net(width):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 4),
    )


def patterns(count, shift=0.0):
    label = torch.randint(0, 4, (count,))
    grid = torch.arange(12.0)
    wave = torch.sin(grid * (label[:, None] + 1) * 0.5)
    image = wave[:, None, None, :].expand(-1, 1, 12, -1) + 0.3 * torch.randn(count, 1, 12, 12)
    return image + shift, label


def fit_teacher():
    teacher = conv_net(24)
    opt = torch.optim.SGD(teacher.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for _ in range(40):
        x, y = patterns(32)
        opt.zero_grad()
        F.cross_entropy(teacher(x), y).backward()
        opt.step()
    return teacher


torch.manual_seed(85)
teacher = fit_teacher()
for weight in teacher.parameters():
    weight.requires_grad_(False)
student = conv_net(8)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)
temperature = 2.0
for step in range(80):
    x, y = patterns(32, shift=1.5)
    soft = teacher(x)
    out = student(x)
    hint = F.kl_div(
        F.log_softmax(out / temperature, 1), F.softmax(soft / temperature, 1), reduction="batchmean"
    )
    loss = F.cross_entropy(out, y) + temperature**2 * hint
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        print(step, round(loss.item(), 4))
