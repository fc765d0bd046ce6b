import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class LogStream(IterableDataset):
    def __init__(self, shards):
        self.shards = shards

    def read(self, shard):
        g = torch.Generator().manual_seed(shard)
        for _ in range(60):
            x = torch.randn(9, generator=g)
            yield {"features": x, "alarm": (x[0] + x[1] > 0.5).float()}

    def __iter__(self):
        for shard in self.shards:
            yield from self.read(shard)


def main():
    torch.manual_seed(325)
    loader = DataLoader(LogStream(range(8)), batch_size=20, num_workers=2)
    net = nn.Sequential(nn.Linear(9, 24), nn.Hardswish(), nn.Linear(24, 1))
    opt = torch.optim.Rprop(net.parameters(), lr=1e-3)
    for epoch in range(2):
        for batch in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(net(batch["features"])[:, 0], batch["alarm"])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
