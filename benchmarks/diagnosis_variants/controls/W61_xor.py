import torch
from torch import nn

torch.manual_seed(161)
inputs = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]])
answers = torch.tensor([0.0, 1, 1, 0])
net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.1)
loss_fn = nn.BCEWithLogitsLoss()
for step in range(400):
    opt.zero_grad()
    loss = loss_fn(net(inputs)[:, 0], answers)
    loss.backward()
    opt.step()
print(loss.item(), (net(inputs)[:, 0] > 0).int().tolist())
