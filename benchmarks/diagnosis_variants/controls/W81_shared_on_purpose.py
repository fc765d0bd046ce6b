"""Networks that share parameters on purpose: a wrapper, a target with the same frozen encoder."""
import copy
import torch
from torch import nn

torch.manual_seed(32)


class Q(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(16, 2)

    def forward(self, x):
        return self.head(torch.relu(self.encoder(x)))


class Logged(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


encoder = nn.Linear(4, 16).requires_grad_(False)
net = Q(encoder)
target = Q(encoder)
target.head.load_state_dict(copy.deepcopy(net.head.state_dict()))
wrapped = Logged(net)
opt = torch.optim.Adam(net.head.parameters(), lr=1e-3)
for step in range(120):
    s, s2, r = torch.randn(32, 4), torch.randn(32, 4), torch.randn(32, 1)
    with torch.no_grad():
        goal = r + 0.9 * target(s2).max(1, keepdim=True).values
    loss = nn.functional.mse_loss(wrapped(s)[:, :1], goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
    for slow, fast in zip(target.head.parameters(), net.head.parameters()):
        slow.data.lerp_(fast.data, 0.05)
    if step % 40 == 0:
        print(step, loss.item())
