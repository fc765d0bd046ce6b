import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(31)
student = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 3))
teacher = nn.Sequential(*student)
opt = torch.optim.AdamW(student.parameters(), lr=2e-3)
for step in range(90):
    x = torch.randn(48, 8)
    y = x[:, :3].argmax(1)
    noisy = x + 0.3 * torch.randn_like(x)
    with torch.no_grad():
        soft = teacher(x).softmax(1)
    out = student(noisy)
    loss = F.cross_entropy(out, y) + F.kl_div(out.log_softmax(1), soft, reduction="batchmean")
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for slow, fast in zip(teacher.parameters(), student.parameters()):
            slow.mul_(0.99).add_(fast, alpha=0.01)
    if step % 30 == 0:
        print(step, loss.item())
