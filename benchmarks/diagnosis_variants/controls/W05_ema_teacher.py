import copy
import torch
from torch import nn

torch.manual_seed(54)
student = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 8))
teacher = copy.deepcopy(student).requires_grad_(False).eval()
optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)
average = torch.optim.swa_utils.AveragedModel(student, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
x = torch.randn(512, 10)
for step in range(80):
    i = torch.randint(0, 512, (64,))
    a = x[i] + 0.1 * torch.randn(64, 10)
    with torch.no_grad():
        goal = nn.functional.normalize(teacher(x[i]), dim=1)
    loss = 2 - 2 * (nn.functional.normalize(student(a), dim=1) * goal).sum(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update_parameters(student)
    with torch.no_grad():
        for p, q in zip(teacher.parameters(), student.parameters()):
            p.lerp_(q, 0.01)
