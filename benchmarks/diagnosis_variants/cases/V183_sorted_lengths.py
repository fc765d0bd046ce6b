import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(6, 24, batch_first=True)
        self.fc = nn.Linear(24, 3)

    def forward(self, x, lengths):
        order = lengths.argsort(descending=True)
        packed = pack_padded_sequence(x[order], lengths[order], batch_first=True)
        _, h = self.gru(packed)
        return self.fc(h[-1])


torch.manual_seed(9)
n = 480
labels = torch.randint(0, 3, (n,))
direction = torch.randn(3, 6)
lengths = torch.randint(4, 16, (n,))
x = direction[labels][:, None] + 0.7 * torch.randn(n, 15, 6)
x[torch.arange(15) >= lengths[:, None]] = 0
net = Spotter()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(8):
    right = 0
    for i in range(0, n, 32):
        out = net(x[i : i + 32], lengths[i : i + 32])
        loss = nn.functional.cross_entropy(out, labels[i : i + 32])
        opt.zero_grad()
        loss.backward()
        opt.step()
        right += (out.argmax(1) == labels[i : i + 32]).sum().item()
    print(epoch, loss.item(), right / n)
