import torch
from torch import nn

torch.manual_seed(6)
x = torch.rand(240, 2) * 4 - 2
y = torch.sin(x[:, :1] * 2) * x[:, 1:]
x_val = torch.rand(80, 2) * 4 - 2
y_val = torch.sin(x_val[:, :1] * 2) * x_val[:, 1:]

model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

best_score, best_weights = float("inf"), None
for epoch in range(80):
    model.train()
    pred = model(x)
    loss = nn.functional.mse_loss(pred, y + 0.2 * torch.randn_like(y))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

    model.eval()
    with torch.no_grad():
        score = nn.functional.mse_loss(model(x_val), y_val).item()
    if score < best_score:
        best_score = score
        best_weights = [p.data for p in model.parameters()]

with torch.no_grad():
    for p, w in zip(model.parameters(), best_weights):
        p.copy_(w)
    print("restored", best_score, nn.functional.mse_loss(model(x_val), y_val).item())
