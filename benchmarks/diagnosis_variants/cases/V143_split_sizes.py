import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.manual_seed(313)
x = torch.randn(500, 10)
y = (x[:, 0] * x[:, 1] > 0).long()
everything = TensorDataset(x, y)
perm = torch.randperm(500).tolist()
train = DataLoader(Subset(everything, perm[:450]), batch_size=50, shuffle=True)
held_out = DataLoader(Subset(everything, perm[-150:]), batch_size=50)
net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 2))
opt = torch.optim.AdamW(net.parameters(), lr=5e-3)


def accuracy(loader):
    net.eval()
    right = n = 0
    with torch.inference_mode():
        for a, b in loader:
            right += (net(a).argmax(1) == b).sum().item()
            n += len(b)
    net.train()
    return right / n


for epoch in range(8):
    for a, b in train:
        loss = nn.functional.cross_entropy(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, accuracy(held_out))
