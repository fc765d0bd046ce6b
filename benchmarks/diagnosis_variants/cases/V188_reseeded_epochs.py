import random
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class Loop:
    def __init__(self, model, data, epochs):
        self.model, self.data, self.epochs = model, data, epochs
        self.opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def train_epoch(self):
        seed_everything(42)
        loader = DataLoader(self.data, batch_size=20, shuffle=True)
        for x, y in loader:
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()

    def fit(self):
        for epoch in range(self.epochs):
            print(epoch, self.train_epoch())


seed_everything(1)
x = torch.randn(400, 12)
y = (x[:, 0] + x[:, 1] ** 2 > 0.8).long()
Loop(nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2)), TensorDataset(x, y), 6).fit()
