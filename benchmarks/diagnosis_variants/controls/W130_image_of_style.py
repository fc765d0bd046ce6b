import torch
from torch import nn


def gram(f):
    b, c, h, w = f.shape
    f = f.view(b, c, h * w)
    return f @ f.transpose(1, 2) / (c * h * w)


torch.manual_seed(5)
features = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())
features.eval().requires_grad_(False)
style, content = torch.rand(1, 3, 32, 32), torch.rand(1, 3, 32, 32)
wanted_style, wanted_content = gram(features(style)), features(content)
picture = content.clone().requires_grad_()
opt = torch.optim.Adam([picture], lr=0.02)
for step in range(120):
    f = features(picture)
    loss = nn.functional.mse_loss(f, wanted_content) + 50 * nn.functional.mse_loss(gram(f), wanted_style)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        picture.clamp_(0, 1)
    if step % 30 == 0:
        print(step, loss.item())
