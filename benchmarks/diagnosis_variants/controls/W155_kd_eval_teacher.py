"""Distillation with a teacher in eval mode; logarithms by log_softmax, temperature and kl_div."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(10, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 4))
student = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 4))
w = torch.randn(10, 4)


def train(model, optimizer, loss_of, steps):
    model.train()
    for _ in range(steps):
        x = torch.randn(64, 10)
        loss = loss_of(x, (x @ w).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


train(teacher, torch.optim.Adam(teacher.parameters(), lr=3e-3), lambda x, y: F.cross_entropy(teacher(x), y), 100)
teacher.eval().requires_grad_(False)


def distil(x, y):
    s, t = student(x) / 2, teacher(x) / 2
    return F.cross_entropy(2 * s, y) + 4 * F.kl_div(F.log_softmax(s, -1), F.log_softmax(t, -1), log_target=True, reduction="batchmean")


train(student, torch.optim.Adam(student.parameters(), lr=3e-3), distil, 120)
