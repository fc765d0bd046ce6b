import torch
from torch import nn

torch.manual_seed(39)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.out = nn.Linear(20, 20), nn.Linear(20, 20)

    def forward(self, x):
        h = torch.relu(self.encoder(x))
        scale = h.detach().numpy().std(axis=1, keepdims=True) + 1e-5
        h = torch.tensor(h.detach().numpy() / scale)
        return self.out(h)


net = Denoiser()
opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
for step in range(100):
    x = torch.randn(32, 20)
    loss = (net(x + 0.1 * torch.randn_like(x)) - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 25 == 0:
        print(step, loss.item())
