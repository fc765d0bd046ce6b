import argparse

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--lr", type=float, default=0.02)
    return parser.parse_args()


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3)
        self.conv2 = nn.Conv2d(6, 12, 3)
        self.fc = nn.Linear(12 * 2 * 2, 4)

    def forward(self, x):
        x = torch.max_pool2d(torch.tanh(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.tanh(self.conv2(x)), 2)
        return self.fc(x.flatten(1))


def train(model, loader, criterion, optimizer):
    model.train()
    optimizer.zero_grad()
    total = 0.0
    for data, target in loader:
        output = model(data)
        loss = criterion(output, target)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(data)
    return total / len(loader.dataset)


def main():
    args = get_args()
    torch.manual_seed(7)
    protos = torch.randn(4, 1, 14, 14)
    y = torch.randint(0, 4, (512,))
    x = protos[y] + 1.2 * torch.randn(512, 1, 14, 14)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    model = LeNet()
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        print(epoch, train(model, loader, criterion, optimizer))


if __name__ == "__main__":
    main()
