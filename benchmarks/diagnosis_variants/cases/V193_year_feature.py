import torch
from torch import nn

torch.manual_seed(27)
n = 900
year = torch.randint(1970, 2021, (n, 1)).float()
mileage = torch.rand(n, 1) * 250_000
power = torch.rand(n, 1) * 200 + 40
price = 0.08 * (year - 1970) - mileage / 100_000 + power / 90 + 0.05 * torch.randn(n, 1)
x = torch.cat([year, mileage, power], 1)


class CarPrice(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(3, 24)
        self.hidden2 = nn.Linear(24, 24)
        self.price = nn.Linear(24, 1)

    def forward(self, x):
        return self.price(torch.sigmoid(self.hidden2(torch.sigmoid(self.hidden(x)))))


model = CarPrice()
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(12):
    order = torch.randperm(n)
    total = 0.0
    for i in range(0, n, 45):
        rows = order[i : i + 45]
        loss = nn.functional.mse_loss(model(x[rows]), price[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() / 20
    print(epoch, total)
