import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def table(rows=600):
    numeric = torch.randn(rows, 5)
    district = torch.randint(0, 8, (rows,))
    rent = numeric @ torch.tensor([1.0, -0.5, 0.3, 0.0, 2.0]) + district.float() * 0.2
    return TensorDataset(numeric, district, rent)


class Rent(nn.Module):
    def __init__(self):
        super().__init__()
        self.district = nn.Embedding(8, 4)
        self.body = nn.Sequential(nn.Linear(9, 32), nn.SELU(), nn.Linear(32, 16), nn.SELU(), nn.Linear(16, 1))

    def forward(self, numeric, district):
        return self.body(torch.cat([numeric, self.district(district)], dim=-1))


def robust(prediction, truth, delta=1.0):
    error = (prediction - truth).abs()
    return torch.where(error < delta, 0.5 * error**2, delta * (error - 0.5 * delta)).mean()


if __name__ == "__main__":
    torch.manual_seed(94)
    loader = DataLoader(table(), batch_size=50, shuffle=True)
    model = Rent()
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for epoch in range(8):
        running = 0.0
        for numeric, district, rent in loader:
            loss = robust(model(numeric, district), rent)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item()
        print(epoch, running / len(loader))
