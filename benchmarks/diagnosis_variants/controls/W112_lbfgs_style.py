"""Style of a picture: the trained tensor is the picture, the network is frozen and in eval mode."""
import torch
from torch import nn


def gram(f):
    c = f.shape[1]
    f = f.view(c, -1)
    return f @ f.t() / f.shape[1]


torch.manual_seed(6)
vgg = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()).eval().requires_grad_(False)
style, content = torch.rand(1, 3, 16, 16), torch.rand(1, 3, 16, 16)
with torch.no_grad():
    target_gram, target = gram(vgg(style)), vgg(content)
picture = content.clone().requires_grad_()
opt = torch.optim.LBFGS([picture], max_iter=10, lr=0.8)


def closure():
    opt.zero_grad()
    f = vgg(picture)
    loss = (f - target).pow(2).mean() + 20 * (gram(f) - target_gram).pow(2).mean()
    loss.backward()
    return loss


for step in range(12):
    print(step, opt.step(closure).item())
