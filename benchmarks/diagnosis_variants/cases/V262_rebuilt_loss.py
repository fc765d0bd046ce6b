"""Actor and critic with losses collected over an episode."""
import torch
from torch import nn

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 2))
critic = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-3)
w = torch.randn(5)
for episode in range(60):
    policy_losses, value_losses = [], []
    for _ in range(8):
        state = torch.randn(5)
        distribution = torch.distributions.Categorical(logits=actor(state))
        action = distribution.sample()
        reward = 1.0 if bool(state @ w > 0) == bool(action) else 0.0
        value = critic(state).squeeze(0)
        advantage = reward - value.item()
        policy_losses.append(-distribution.log_prob(action) * advantage)
        value_losses.append((value - reward) ** 2)
    policy_loss = torch.stack(policy_losses).mean()
    value_loss = torch.tensor(value_losses, requires_grad=True).mean()
    loss = policy_loss + 0.5 * value_loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if episode % 15 == 0:
        print(episode, policy_loss.item(), value_loss.item())
