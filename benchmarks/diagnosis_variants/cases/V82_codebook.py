"""Vector-quantised auto-encoder of short waveforms."""
import torch
from torch import nn


class Quantiser(nn.Module):
    def __init__(self, codes, width):
        super().__init__()
        self.codebook = nn.Embedding(codes, width)
        nn.init.uniform_(self.codebook.weight, -0.5, 0.5)

    def forward(self, z):
        distance = torch.cdist(z, self.codebook.weight)
        index = distance.argmin(-1)
        chosen = self.codebook(index)
        return chosen, index


class VQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.analysis = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8))
        self.quantiser = Quantiser(16, 8)
        self.synthesis = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x):
        code, index = self.quantiser(self.analysis(x))
        return self.synthesis(code), index


def waves(count):
    t = torch.linspace(0, 1, 32)
    freq = torch.randint(1, 5, (count, 1)).float()
    phase = torch.rand(count, 1) * 6.28
    return torch.sin(6.28 * freq * t + phase)


def main():
    torch.manual_seed(82)
    net = VQ()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.0)
    for epoch in range(4):
        for _ in range(30):
            x = waves(32)
            out, index = net(x)
            loss = (out - x).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item(), "codes in use", index.unique().numel())


main()
