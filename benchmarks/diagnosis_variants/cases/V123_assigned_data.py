import copy
import torch
from torch import nn

torch.manual_seed(30)
q_net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
target_net = copy.deepcopy(q_net)
opt = torch.optim.Adam(q_net.parameters(), lr=1e-3)


def sync():
    for old, new in zip(target_net.parameters(), q_net.parameters()):
        old.data = new.data


for step in range(160):
    s, s2 = torch.randn(32, 4), torch.randn(32, 4)
    action, reward = torch.randint(0, 2, (32, 1)), torch.randn(32, 1)
    with torch.no_grad():
        goal = reward + 0.9 * target_net(s2).max(1, keepdim=True).values
    loss = nn.functional.smooth_l1_loss(q_net(s).gather(1, action), goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        sync()
        print(step, loss.item())
