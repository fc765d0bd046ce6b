import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

torch.manual_seed(0)


class TCNBlock(nn.Module):
    def __init__(self, cin, cout, dilation):
        super().__init__()
        self.pad = dilation
        self.conv = nn.Conv1d(cin, cout, 2, dilation=dilation)

    def forward(self, x):
        return torch.relu(self.conv(nn.functional.pad(x, (self.pad, 0))))


def add_weight_norm(net):
    for module in net.modules():
        if isinstance(module, nn.Conv1d):
            weight_norm(module)


net = nn.Sequential(TCNBlock(1, 16, 1), TCNBlock(16, 16, 2), TCNBlock(16, 16, 4), nn.Conv1d(16, 1, 1))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
add_weight_norm(net)

t = torch.arange(0, 4000) * 0.05
series = torch.sin(t) + 0.3 * torch.sin(3.1 * t) + 0.05 * torch.randn(4000)
windows = series.unfold(0, 65, 8)
for step in range(160):
    w = windows[torch.randint(0, len(windows), (24,))]
    pred = net(w[:, None, :-1])[:, 0]
    loss = nn.functional.mse_loss(pred, w[:, 1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 40 == 0:
        print(step, loss.item())
