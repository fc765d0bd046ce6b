import torch
from torch import nn


class Average:
    def __init__(self):
        self.values = []

    def add(self, value):
        self.values.append(value)

    @property
    def mean(self):
        return torch.stack(self.values).mean()


class Learner:
    def __init__(self, model, lr):
        self.model = model
        self.opt = torch.optim.Adadelta(model.parameters(), lr=lr)
        self.meter = Average()

    def step(self, x, y):
        out = self.model(x)
        error = nn.functional.huber_loss(out, y)
        self.opt.zero_grad()
        error.backward()
        self.opt.step()
        self.meter.add(error)

    def fit(self, source, epochs):
        for epoch in range(epochs):
            for x, y in source(30):
                self.step(x, y)
            print(f"epoch {epoch} mean error {self.meter.mean:.4f}")


def signal(n):
    for _ in range(n):
        x = torch.rand(20, 16, 3)
        yield x, x.cumsum(1)[:, -1]


class Summing(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(3, 24, batch_first=True)
        self.head = nn.Linear(24, 3)

    def forward(self, x):
        return self.head(self.rnn(x)[1][0])


torch.manual_seed(98)
Learner(Summing(), lr=1.0).fit(signal, 5)
