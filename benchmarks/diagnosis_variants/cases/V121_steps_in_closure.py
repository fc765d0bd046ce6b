import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Loop:
    def __init__(self, net, loader, epochs=9):
        self.net, self.loader, self.epochs = net, loader, epochs
        self.opt = torch.optim.Adam(net.parameters(), lr=2e-3)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.opt, step_size=3, gamma=0.5)

    def run(self):
        for _ in range(self.epochs):
            for batch in self.loader:
                self.update(*batch)

    def update(self, x, y):
        loss = nn.functional.smooth_l1_loss(self.net(x)[:, 0], y)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad()
        self.scheduler.step()


torch.manual_seed(26)
x = torch.randn(240, 5)
net = nn.Sequential(nn.Linear(5, 32), nn.GELU(), nn.Linear(32, 1))
Loop(net, DataLoader(TensorDataset(x, x.pow(2).sum(1)), batch_size=24, shuffle=True)).run()
