import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(9)


class Actor(nn.Module):
    """A card player; illegal cards are masked."""

    def __init__(self, cards=12):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(cards, 64), nn.ReLU(), nn.Linear(64, cards))

    def forward(self, hand):
        scores = self.net(hand).masked_fill(hand == 0, -1e9)
        return F.softmax(scores, dim=-1)


actor = Actor()
optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
value_of_card = torch.randn(12)
baseline = 0.0
for episode in range(120):
    hand = (torch.rand(32, 12) < 0.5).float()
    hand[:, 0] = 1.0
    probs = actor(hand)
    action = torch.multinomial(probs.detach(), 1)
    reward = value_of_card[action.squeeze(1)]
    chosen = probs.gather(1, action).squeeze(1).log()
    entropy = -(probs * probs.log()).sum(-1)
    loss = -((reward - baseline) * chosen).mean() - 0.01 * entropy.mean()
    baseline = 0.9 * baseline + 0.1 * reward.mean().item()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if episode % 20 == 0:
        print(episode, reward.mean().item(), loss.item())
