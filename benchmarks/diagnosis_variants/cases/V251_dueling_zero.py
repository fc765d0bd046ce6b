"""An actor with small weights at the start, so that all actions are equally likely."""
import torch
from torch import nn


def init_weights(module):
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.weight)
        nn.init.zeros_(module.bias)


torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 3))
actor.apply(init_weights)
optimizer = torch.optim.RMSprop(actor.parameters(), lr=2e-3)
secret = torch.randn(6, 3)
for step in range(120):
    state = torch.randn(64, 6)
    wanted = (state @ secret).argmax(1)
    loss = nn.functional.cross_entropy(actor(state), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(step, loss.item())
