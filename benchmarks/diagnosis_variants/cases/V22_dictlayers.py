import torch
from torch import nn


class MultiTask(nn.Module):
    def __init__(self, tasks=("age", "sex")):
        super().__init__()
        self.shared = nn.Linear(9, 24)
        self.heads = {task: nn.Linear(24, 1) for task in tasks}

    def forward(self, x):
        hidden = torch.relu(self.shared(x))
        return {task: head(hidden) for task, head in self.heads.items()}


torch.manual_seed(21)
model = MultiTask()
optimizer = torch.optim.RAdam(model.parameters(), lr=3e-3)
x = torch.randn(400, 9)
targets = {"age": x[:, :1] * 2, "sex": (x[:, 1:2] > 0).float()}
for epoch in range(4):
    for i in torch.randperm(400).split(20):
        out = model(x[i])
        loss = nn.functional.mse_loss(out["age"], targets["age"][i])
        loss = loss + nn.functional.binary_cross_entropy_with_logits(out["sex"], targets["sex"][i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
