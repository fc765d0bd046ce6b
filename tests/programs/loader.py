"""A DataLoader whose dataset transforms tensors in the main process; a test after each epoch."""

import torch
from results import FAULT_STEP, print_results
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self, size):
        self.pictures = torch.randn(size, 1, 6, 6)
        self.labels = torch.randint(3, (size,))

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        picture = self.pictures[index].sub(0.13).div(0.3)
        if torch.rand(()) < 0.5:
            picture = picture.flip(-1)
        return nn.functional.pad(picture, (1, 1, 1, 1))[:, 1:7, 1:7], self.labels[index]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3)
        self.dropout = nn.Dropout(0.25)
        self.fc1 = nn.Linear(64, 3)

    def forward(self, x):
        x = self.dropout(torch.relu(self.conv1(x)))
        return nn.functional.log_softmax(self.fc1(x.flatten(1)), dim=1)


torch.manual_seed(0)
train_loader = DataLoader(Pictures(12), batch_size=4, shuffle=True)
test_loader = DataLoader(Pictures(8), batch_size=4)
model = Net()
optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
losses, step = [], 0
for _ in range(2):
    model.train()
    for data, target in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.nll_loss(model(data), target)
        scale = 0.0 if step == FAULT_STEP else 1.0
        loss = loss * scale / torch.tensor(scale)  # FAULT
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        step += 1
    model.eval()
    with torch.no_grad():
        for data, target in test_loader:
            losses.append(nn.functional.nll_loss(model(data), target, reduction="sum").item())
print_results(losses, model.state_dict())
