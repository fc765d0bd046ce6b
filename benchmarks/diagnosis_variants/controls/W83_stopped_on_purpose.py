"""Gradients that are stopped on purpose: hidden states between chunks, a target, logging by
.data, and an auxiliary head with an optimizer of its own on detached features."""
import torch
from torch import nn

torch.manual_seed(40)
rnn, out = nn.GRU(3, 24, batch_first=True), nn.Linear(24, 3)
probe = nn.Linear(24, 1)
opt = torch.optim.Adam([*rnn.parameters(), *out.parameters()], lr=3e-3)
probing = torch.optim.SGD(probe.parameters(), lr=0.05)
state, norm = None, 0.0
for step in range(100):
    wave = torch.sin(torch.arange(step * 10, step * 10 + 11) / 5.0)
    x = torch.stack([wave, wave**2, wave**3], 1).expand(8, 11, 3) + 0.05 * torch.randn(8, 11, 3)
    h, state = rnn(x[:, :-1], state)
    state = state.detach()
    goal = x[:, 1:].detach()
    loss = nn.functional.mse_loss(out(h), goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
    norm += h.data.norm().item()
    guess = probe(h.detach())
    second = (guess[..., 0] - x[:, :-1, 0]).pow(2).mean()
    probing.zero_grad()
    second.backward()
    probing.step()
    if step % 25 == 0:
        print(step, loss.item(), norm)
