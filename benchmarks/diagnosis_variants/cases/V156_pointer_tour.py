import torch
from torch import nn


class Pointer(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.embed = nn.Linear(2, dim)
        self.query = nn.GRUCell(dim, dim)
        self.key = nn.Linear(dim, dim)

    def forward(self, cities, closed):
        e = self.embed(cities)
        k = self.key(e)
        h = e.mean(1)
        visited, total = closed.clone(), 0.0
        last = torch.zeros_like(h)
        for _ in range(cities.shape[1] - 2):
            h = self.query(last, h)
            scores = (k @ h[..., None]).squeeze(-1) / 5
            p = scores.masked_fill(visited, float("-inf")).softmax(-1)
            choice = p.detach().nan_to_num(0.1).multinomial(1)
            total = total + torch.log(p.gather(1, choice) + 1e-9)
            visited = visited.scatter(1, choice, True)
            last = e.gather(1, choice[..., None].expand(-1, 1, e.shape[-1])).squeeze(1)
        return total.squeeze(1)


torch.manual_seed(326)
net = Pointer()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(60):
    cities = torch.rand(16, 7, 2)
    closed = torch.zeros(16, 7, dtype=torch.bool)
    if step > 8:
        closed[torch.arange(3), :3] = True
    reward = cities[:, 0].sum(1)
    loss = -(net(cities, closed) * (reward - reward.mean())).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(step, loss.item())
