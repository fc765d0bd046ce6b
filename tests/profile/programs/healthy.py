"""Nothing planted: data in memory, a batch of some size, a fused optimizer."""

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(256, 512)
        self.second = nn.Linear(512, 512)
        self.last = nn.Linear(512, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = torch.relu(self.second(x))
        return self.last(x)


def main() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01, fused=True)
    inputs, labels = torch.randn(256, 256), torch.randint(0, 10, (256,))
    for _ in range(20):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(inputs), labels)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
