import torch
from torch import nn


class Pointer(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.embed = nn.Linear(2, dim)
        self.query = nn.GRUCell(dim, dim)

    def forward(self, cities):
        e = self.embed(cities)
        h, last = e.mean(1), torch.zeros(len(cities), e.shape[-1])
        visited = torch.zeros(cities.shape[:2], dtype=torch.bool)
        total, tour = 0.0, []
        for _ in range(cities.shape[1]):
            h = self.query(last, h)
            scores = (e @ h[..., None]).squeeze(-1).masked_fill(visited, float("-inf"))
            logp = scores.log_softmax(-1)
            choice = logp.detach().exp().multinomial(1)
            total = total + logp.gather(1, choice).squeeze(1)
            visited = visited.scatter(1, choice, True)
            tour.append(choice)
            last = e.gather(1, choice[..., None].expand(-1, 1, e.shape[-1])).squeeze(1)
        return total, torch.cat(tour, 1)


torch.manual_seed(405)
net = Pointer()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(80):
    cities = torch.rand(64, 6, 2)
    logp, tour = net(cities)
    path = cities.gather(1, tour[..., None].expand(-1, -1, 2))
    length = (path - path.roll(1, 1)).norm(dim=-1).sum(1)
    loss = ((length - length.mean()) * logp).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, length.mean().item())
