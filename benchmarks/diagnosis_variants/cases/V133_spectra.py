import math
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(303)


def features(power, p=0.4):
    power = power.half()
    power = F.dropout(power, p, training=True)
    return power.float().clamp(min=1e-3).log() / 10


time = torch.linspace(0, 1, 256)


def sounds(n, loud):
    pitch = torch.randint(0, 3, (n,))
    wave = torch.sin(2 * math.pi * (8 + 8 * pitch[:, None]) * time) * loud + torch.randn(n, 256)
    return torch.fft.rfft(wave).abs().square().clamp(max=64000.0), pitch


classify = nn.Sequential(nn.Linear(129, 48), nn.SiLU(), nn.Linear(48, 3))
sgd = torch.optim.SGD(classify.parameters(), lr=0.02, momentum=0.9)
for it in range(90):
    power, pitch = sounds(32, 0.6 if it < 30 else 3.0)
    loss = F.cross_entropy(classify(features(power)), pitch)
    sgd.zero_grad()
    loss.backward()
    sgd.step()
    if it % 15 == 0:
        print(it, loss.item())
