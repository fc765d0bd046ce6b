import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader


def sample():
    n = int(torch.randint(5, 40, (1,)))
    x = torch.randn(n, 6)
    return x, x.cumsum(0)[:, :1] * 0.3 + 1.0


def collate(batch):
    xs, ys = zip(*batch)
    lengths = torch.tensor([len(x) for x in xs])
    return pad_sequence(xs, batch_first=True), pad_sequence(ys, batch_first=True), lengths


class Tracker(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 32, batch_first=True)
        self.head = nn.Linear(32, 1)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.head(out)


torch.manual_seed(0)
loader = DataLoader([sample() for _ in range(320)], batch_size=32, shuffle=True, collate_fn=collate)
tracker = Tracker()
optimizer = torch.optim.Adam(tracker.parameters(), lr=3e-3)
criterion = nn.MSELoss()
for epoch in range(6):
    for x, y, lengths in loader:
        prediction = tracker(x, lengths)
        loss = criterion(prediction, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
