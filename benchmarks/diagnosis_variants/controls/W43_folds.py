import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.manual_seed(0)
x = torch.randn(240, 8)
data = TensorDataset(x, (x[:, 0] + x[:, 1] > 0).float())
folds = torch.randperm(240).chunk(3)
for number, fold in enumerate(folds):
    others = torch.cat([each for k, each in enumerate(folds) if k != number])
    net = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    best, kept = float("inf"), None
    for epoch in range(5):
        net.train()
        for a, b in DataLoader(Subset(data, others.tolist()), batch_size=32, shuffle=True):
            optimizer.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(net(a).squeeze(1), b).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            a, b = next(iter(DataLoader(Subset(data, fold.tolist()), batch_size=80)))
            score = nn.functional.binary_cross_entropy_with_logits(net(a).squeeze(1), b).item()
        if score < best:
            best, kept = score, copy.deepcopy(net.state_dict())
    net.load_state_dict(kept)
    print(number, best)
