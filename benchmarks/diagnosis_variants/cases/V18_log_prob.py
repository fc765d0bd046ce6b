import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 6))

    def forward(self, state):
        return self.net(state).softmax(dim=-1)


torch.manual_seed(17)
model = Policy()
optimizer = torch.optim.Adam(model.parameters(), lr=0.3)
states = 40 * torch.randn(400, 5)
actions = states[:, :5].argmax(1)
for epoch in range(8):
    for i in torch.randperm(400).split(25):
        probabilities = model(states[i])
        chosen = probabilities.gather(1, actions[i, None])
        loss = -torch.log(chosen).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
