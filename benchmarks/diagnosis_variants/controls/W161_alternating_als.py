"""Alternating optimisation of two factors, each with its own optimizer; the other one has gradients, too."""
import torch

torch.manual_seed(0)
truth = torch.randn(40, 3) @ torch.randn(3, 30)
left = torch.nn.Parameter(0.5 * torch.randn(40, 3))
right = torch.nn.Parameter(0.5 * torch.randn(3, 30))
optimizers = [torch.optim.SGD([left], lr=3.0), torch.optim.SGD([right], lr=3.0)]
for step in range(120):
    loss = (left @ right - truth).square().mean()
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    optimizers[step % 2].step()
print(loss.item())
