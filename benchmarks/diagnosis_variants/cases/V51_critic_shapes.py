import torch
from torch import nn

torch.manual_seed(0)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 32), nn.Tanh())
        self.actor = nn.Linear(32, 3)
        self.critic = nn.Linear(32, 1)

    def forward(self, states):
        h = self.body(states)
        return torch.distributions.Categorical(logits=self.actor(h)), self.critic(h)


net = ActorCritic()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
direction = torch.randn(6)
for iteration in range(80):
    states = torch.randn(48, 6)
    policy, values = net(states)
    actions = policy.sample()
    returns = states @ direction + (actions == 1).float()
    advantage = returns - values.squeeze(-1).detach()
    actor_loss = -(policy.log_prob(actions) * advantage).mean()
    critic_loss = (returns - values).pow(2).mean()
    loss = actor_loss + 0.5 * critic_loss - 0.01 * policy.entropy().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
print(critic_loss.item())
