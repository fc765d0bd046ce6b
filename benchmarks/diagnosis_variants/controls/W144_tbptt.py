"""Truncated backpropagation: the state is detached, and the same text is read in order."""
import torch
from torch import nn

torch.manual_seed(0)
text = torch.tensor([ord(c) - 97 for c in "abcabdabcabe" * 80])


class Lm(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(5, 16)
        self.r = nn.LSTM(16, 32, batch_first=True)
        self.o = nn.Linear(32, 5)

    def forward(self, x, state):
        h, state = self.r(self.e(x), state)
        return self.o(h), state


model = Lm()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
rows = text[: 4 * 240].view(4, 240)
for epoch in range(8):
    state = None
    for t in range(0, 224, 16):
        logits, state = model(rows[:, t : t + 16], state)
        state = tuple(s.detach() for s in state)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, t + 1 : t + 17].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    print(epoch, loss.item())
