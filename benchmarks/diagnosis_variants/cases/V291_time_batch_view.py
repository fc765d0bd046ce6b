import torch
from torch import nn


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(10, 20, 3, padding=1)
        self.rnn = nn.GRU(20, 24, batch_first=True)
        self.out = nn.Linear(24, 4)

    def forward(self, x):
        h = torch.relu(self.conv(x))
        h = h.view(h.size(0), h.size(2), h.size(1))
        return self.out(self.rnn(h)[0][:, -1])


torch.manual_seed(0)
model = Speech()
optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
for step in range(60):
    y = torch.randint(0, 4, (24,))
    x = torch.randn(24, 10, 15)
    x[torch.arange(24), y] += 1.5
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 15 == 0:
        print(step, loss.item())
