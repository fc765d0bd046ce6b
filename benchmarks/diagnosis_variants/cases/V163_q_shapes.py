import copy
import torch
from torch import nn


class Learner:
    def __init__(self):
        self.q = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 3))
        self.frozen = copy.deepcopy(self.q).requires_grad_(False)
        self.opt = torch.optim.RMSprop(self.q.parameters(), lr=1e-3)

    def td_error(self, s, a, r, s2, done):
        chosen = self.q(s).gather(1, a)
        goal = r + 0.9 * (1 - done) * self.frozen(s2).max(1).values
        return (goal - chosen).abs().mean()

    def learn(self, batch):
        loss = self.td_error(*batch)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


torch.manual_seed(506)
learner = Learner()
for t in range(150):
    s = torch.randn(64, 4)
    a = torch.randint(0, 3, (64, 1))
    r = (a.squeeze(1) == s[:, :3].argmax(1)).float()
    shown = learner.learn((s, a, r, torch.randn(64, 4), (torch.rand(64) < 0.1).float()))
    if t % 25 == 0:
        learner.frozen.load_state_dict(learner.q.state_dict())
        print(t, shown)
