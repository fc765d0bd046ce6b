import torch
from torch import nn


class Spotter(nn.Module):
    """Convolutions over time, then an LSTM."""

    def __init__(self, mel=20, width=24, classes=4):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(mel, width, 5, padding=2), nn.ReLU())
        self.rnn = nn.LSTM(width, 32, batch_first=True, bidirectional=True)
        self.out = nn.Linear(64, classes)

    def forward(self, spec):
        features = self.conv(spec)
        batch, width, frames = features.shape
        sequence = features.view(batch, frames, width)
        hidden, _ = self.rnn(sequence)
        return self.out(hidden.mean(1))


def spectrograms(n):
    y = torch.randint(0, 4, (n,))
    x = torch.randn(n, 20, 30) * 0.3
    for i, c in enumerate(y.tolist()):
        start = torch.randint(0, 20, ()).item()
        x[i, 4 * c : 4 * c + 4, start : start + 8] += 1.0
    return x, y


torch.manual_seed(90)
spotter = Spotter()
optimizer = torch.optim.RMSprop(spotter.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
for epoch in range(3):
    right = total = 0
    for _ in range(30):
        x, y = spectrograms(24)
        out = spotter(x)
        loss = criterion(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right += (out.argmax(1) == y).sum().item()
        total += len(y)
    print(epoch, loss.item(), right / total)
