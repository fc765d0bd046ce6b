"""Next-sample prediction with dilated convolutions."""
import torch
from torch import nn
from torch.nn import functional as F


class Gated(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.filter = nn.Conv1d(width, 2 * width, kernel_size=3, dilation=dilation, padding=dilation)
        self.out = nn.Conv1d(width, width, 1)

    def forward(self, x):
        value, gate = self.filter(x).chunk(2, dim=1)
        return x + self.out(torch.tanh(value) * torch.sigmoid(gate))


class WaveNet(nn.Module):
    def __init__(self, levels=32, width=24):
        super().__init__()
        self.embed = nn.Embedding(levels, width)
        self.stack = nn.ModuleList([Gated(width, 2**k) for k in range(4)])
        self.head = nn.Conv1d(width, levels, 1)

    def forward(self, samples):
        x = self.embed(samples).transpose(1, 2)
        for layer in self.stack:
            x = layer(x)
        return self.head(x)


def audio(count, length=40, levels=32):
    steps = torch.randint(-3, 4, (count, length)).cumsum(1)
    return (steps + 16).clamp(0, levels - 1)


torch.manual_seed(87)
model = WaveNet()
opt = torch.optim.RAdam(model.parameters(), lr=3e-3)
for step in range(120):
    wave = audio(16)
    logits = model(wave[:, :-1])
    loss = F.cross_entropy(logits, wave[:, 1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
