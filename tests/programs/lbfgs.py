"""Learns sine waves with a loop over LSTMCells and LBFGS, and predicts after each step."""

import torch
from results import FAULT_STEP, print_results
from torch import nn


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1 = nn.LSTMCell(1, 6)
        self.lstm2 = nn.LSTMCell(6, 6)
        self.linear = nn.Linear(6, 1)

    def forward(self, x, future=0):
        outputs = []
        h, c, h2, c2 = (torch.zeros(x.size(0), 6, dtype=torch.double) for _ in range(4))
        for part in x.split(1, dim=1):
            h, c = self.lstm1(part, (h, c))
            h2, c2 = self.lstm2(h, (h2, c2))
            outputs.append(self.linear(h2))
        for _ in range(future):
            h, c = self.lstm1(outputs[-1], (h, c))
            h2, c2 = self.lstm2(h, (h2, c2))
            outputs.append(self.linear(h2))
        return torch.cat(outputs, dim=1)


torch.manual_seed(0)
waves = torch.sin(torch.arange(5, dtype=torch.double) / 2 + torch.randn(3, 1, dtype=torch.double))
seq = Sequence().double()
criterion = nn.MSELoss()
optimizer = torch.optim.LBFGS(seq.parameters(), lr=0.5, max_iter=2)
losses = []
for step in range(3):

    def closure(step=step):
        optimizer.zero_grad()
        loss = criterion(seq(waves[:, :-1]), waves[:, 1:])
        scale = 0.0 if step == FAULT_STEP else 1.0
        loss = loss * scale / torch.tensor(scale)  # FAULT
        loss.backward()
        losses.append(loss.item())
        return loss

    optimizer.step(closure)
    with torch.no_grad():
        losses.append(seq(waves[:, :-1], future=2).sum().item())
print_results(losses, seq.state_dict())
