"""OneCycle per batch, with Lookahead-like slow weights that are copied back."""
import torch
from torch import nn

torch.manual_seed(0)
EPOCHS, BATCHES = 6, 20
net = nn.Sequential(nn.Linear(10, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=EPOCHS * BATCHES)
slow = [p.detach().clone() for p in net.parameters()]
w = torch.randn(10, 3)
for epoch in range(EPOCHS):
    net.train()
    for batch in range(BATCHES):
        x = torch.randn(48, 10)
        loss = nn.functional.cross_entropy(net(x), (x @ w).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if batch % 5 == 4:
            with torch.no_grad():
                for s, p in zip(slow, net.parameters()):
                    s += 0.5 * (p - s)
                    p.copy_(s)
    net.eval()
    with torch.no_grad():
        x = torch.randn(200, 10)
        print(epoch, loss.item(), (net(x).argmax(1) == (x @ w).argmax(1)).float().mean().item())
