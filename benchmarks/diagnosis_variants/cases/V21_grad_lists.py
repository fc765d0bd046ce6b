import torch
from torch import nn


def train_step(model, batch, optimizers):
    x, y = batch
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=False)
        optimizer.step()
    return loss.item()


torch.manual_seed(20)
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
optimizers = [torch.optim.Adam(model[0].parameters(), lr=1e-2), torch.optim.Adamax(model[2].parameters())]
for step in range(50):
    x = torch.randn(32, 5)
    loss = train_step(model, (x, x.sum(1, keepdim=True)), optimizers)
print(loss)
