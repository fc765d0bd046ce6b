import torch
from torch.func import functional_call, grad_and_value, vmap
from torch import nn

torch.manual_seed(407)
net = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
weights = {k: v.detach().clone() for k, v in net.named_parameters()}


def loss_of(w, x, y):
    return (functional_call(net, w, (x,)) - y).square().mean()


step_of = grad_and_value(loss_of)
per_sample = vmap(torch.func.grad(loss_of), in_dims=(None, 0, 0))
for step in range(150):
    x = torch.randn(64, 5)
    y = x[:, :1] * x[:, 1:2]
    grads, loss = step_of(weights, x, y)
    weights = {k: w - 0.05 * grads[k] for k, w in weights.items()}
    if step % 30 == 0:
        spread = per_sample(weights, x, y)["0.weight"].flatten(1).norm(dim=1).std()
        print(step, loss.item(), spread.item())
