import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
teacher = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 5)).eval()
for p in teacher.parameters():
    p.requires_grad_(False)
student = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.AdamW(student.parameters(), lr=3e-3)
T = 4.0
for step in range(120):
    x = torch.randn(64, 10)
    with torch.no_grad():
        soft = F.softmax(teacher(x) / T, dim=1)
    logits = student(x)
    loss = F.kl_div(F.log_softmax(logits / T, dim=1), soft, reduction="batchmean") * T * T
    loss = loss + 0.1 * F.cross_entropy(logits, soft.argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
