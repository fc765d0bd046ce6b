import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(50)
actor = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
critic = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-3)
for update in range(15):
    with torch.no_grad():
        states = torch.randn(128, 4)
        dist = Categorical(logits=actor(states))
        actions = dist.sample()
        old = dist.log_prob(actions)
        reward = (actions == states[:, :3].argmax(1)).float()
        advantage = reward - critic(states)[:, 0]
    for _ in range(4):
        dist = Categorical(logits=actor(states))
        ratio = (dist.log_prob(actions) - old).exp()
        policy = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        value = nn.functional.mse_loss(critic(states)[:, 0], reward)
        loss = policy + 0.5 * value - 0.01 * dist.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
        optimizer.step()
