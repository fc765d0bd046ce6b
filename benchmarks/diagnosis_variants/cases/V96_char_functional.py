import torch
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog and runs away from the slow cat " * 20
ALPHABET = sorted(set(TEXT))
CODES = torch.tensor([ALPHABET.index(c) for c in TEXT])


class Chars(nn.Module):
    def __init__(self, n, width=40):
        super().__init__()
        self.table = nn.Embedding(n, width)
        self.cell = nn.LSTM(width, width, batch_first=True)
        self.logits = nn.Linear(width, n)

    def forward(self, x):
        return self.logits(self.cell(self.table(x))[0])


def window(length=24, count=16):
    starts = torch.randint(0, len(CODES) - length - 1, (count,))
    return torch.stack([CODES[s : s + length] for s in starts])


def objective(net, chars):
    guess = net(chars)
    return nn.functional.nll_loss(guess.log_softmax(-1).transpose(1, 2), chars)


torch.manual_seed(96)
net = Chars(len(ALPHABET))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for i in range(100):
    chars = window()
    value = objective(net, chars)
    opt.zero_grad()
    value.backward()
    opt.step()
    if i % 25 == 0:
        print(i, f"{value.item() / 0.6931:.3f} bits per character")
