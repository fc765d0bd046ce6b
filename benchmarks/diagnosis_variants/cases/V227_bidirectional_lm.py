"""Next-character model on a periodic text."""
import torch
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog while seven wizards box quietly " * 40
SYMBOLS = sorted(set(TEXT))
DATA = torch.tensor([SYMBOLS.index(c) for c in TEXT])


class CharModel(nn.Module):
    def __init__(self, size, width=48):
        super().__init__()
        self.embed = nn.Embedding(size, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, size)

    def forward(self, ids):
        out, _ = self.lstm(self.embed(ids))
        return self.head(out)


def batch(size=16, length=32):
    starts = torch.randint(0, len(DATA) - length - 1, (size,)).tolist()
    rows = torch.stack([DATA[s : s + length + 1] for s in starts])
    return rows[:, :-1], rows[:, 1:]


def main():
    torch.manual_seed(0)
    model = CharModel(len(SYMBOLS))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    for step in range(120):
        x, y = batch()
        logits = model(x)
        loss = nn.functional.cross_entropy(logits.reshape(-1, len(SYMBOLS)), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 20 == 0:
            print(step, loss.item())


main()
