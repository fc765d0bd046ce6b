import torch
from torch import nn


def gradient_report(model):
    """Norm of each layer's gradient, for the log."""
    report = {}
    for name, p in model.named_parameters():
        if p.grad is not None:
            report[name] = p.grad.norm().item()
            p.grad.zero_()
    return report


def train_step(model, batch, optimizer):
    x, y = batch
    optimizer.zero_grad()
    loss = nn.functional.smooth_l1_loss(model(x), y)
    loss.backward()
    norms = gradient_report(model)
    optimizer.step()
    return loss.item(), norms


torch.manual_seed(8)
model = nn.Sequential(nn.Conv1d(2, 8, 5, padding=2), nn.LeakyReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(90):
    x = torch.randn(20, 2, 50)
    y = x[:, 0].mean(1, keepdim=True) * 5 - x[:, 1].std(1, keepdim=True)
    loss, norms = train_step(model, (x, y), optimizer)
    if step % 15 == 0:
        print(step, loss, max(norms.values()))
