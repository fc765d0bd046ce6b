import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
weights = {name: value.detach().clone() for name, value in net.named_parameters()}
truth = torch.randn(5)


def loss_of(weights, x, y):
    return nn.functional.mse_loss(functional_call(net, weights, (x[None],)).squeeze(), y)


for step in range(60):
    x = torch.randn(32, 5)
    gradients, losses = vmap(grad_and_value(loss_of), in_dims=(None, 0, 0))(weights, x, x @ truth)
    for name in weights:
        weights[name] = weights[name] - 0.1 * gradients[name].mean(0)
print(losses.mean().item())
