import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split


class Spectra(Dataset):
    def __init__(self, n=360, length=48):
        g = torch.Generator().manual_seed(5)
        self.y = torch.randint(0, 3, (n,), generator=g)
        shape = torch.randn(3, length, generator=g)
        self.x = shape[self.y] + 1.5 * torch.randn(n, length, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def make_loader(split, batch_size=24):
    data = Spectra()
    n_val = len(data) // 5
    train, val = random_split(data, [len(data) - n_val, n_val])
    return DataLoader(train, batch_size, shuffle=True) if split == "train" else DataLoader(val, batch_size)


torch.manual_seed(1)
train_loader = make_loader("train")
val_loader = make_loader("val")
model = nn.Sequential(nn.Linear(48, 64), nn.SiLU(), nn.Dropout(0.2), nn.Linear(64, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
loss_fn = nn.CrossEntropyLoss()

for epoch in range(6):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in val_loader:
            right += (model(x).argmax(1) == y).sum().item()
    print(f"epoch {epoch}: accuracy {right / len(val_loader.dataset):.3f}")
