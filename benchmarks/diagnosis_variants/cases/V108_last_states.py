import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(8)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 20, num_layers=2, bidirectional=True)
        self.out = nn.Linear(80, 3)

    def forward(self, x):
        _, (h, _) = self.lstm(x.transpose(0, 1))
        h = h.view(x.shape[0], -1)
        return self.out(torch.relu(h))


y = torch.randint(0, 3, (400,))
x = torch.randn(400, 9, 6) + y[:, None, None].float()
model = Reader()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for epoch in range(4):
    for bx, by in DataLoader(TensorDataset(x, y), batch_size=25, shuffle=True):
        loss = nn.functional.cross_entropy(model(bx), by)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
