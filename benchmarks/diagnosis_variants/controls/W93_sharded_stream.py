import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        start, stride = (info.id, info.num_workers) if info else (0, 1)
        for shard in range(start, 8, stride):
            g = torch.Generator().manual_seed(shard)
            for _ in range(60):
                x = torch.randn(9, generator=g)
                yield x, (x[0] + x[1] > 0.5).float()


if __name__ == "__main__":
    torch.manual_seed(410)
    net = nn.Sequential(nn.Linear(9, 24), nn.Hardswish(), nn.Linear(24, 1))
    opt = torch.optim.Rprop(net.parameters(), lr=1e-3)
    for epoch in range(2):
        for x, y in DataLoader(Stream(), batch_size=20, num_workers=2):
            loss = nn.functional.binary_cross_entropy_with_logits(net(x)[:, 0], y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())
