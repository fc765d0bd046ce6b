"""REINFORCE with a learned baseline and an entropy bonus on a corridor."""
import torch
from torch import nn


def episode(policy):
    place, logs, entropies, rewards, places = 3, [], [], [], []
    for _ in range(20):
        state = nn.functional.one_hot(torch.tensor(place), 7).float()
        choice = torch.distributions.Categorical(logits=policy(state))
        move = choice.sample()
        logs.append(choice.log_prob(move))
        entropies.append(choice.entropy())
        places.append(state)
        place = max(0, min(6, place + (1 if move == 1 else -1)))
        rewards.append(1.0 if place == 6 else -0.02)
        if place == 6:
            break
    return torch.stack(places), torch.stack(logs), torch.stack(entropies), rewards


torch.manual_seed(154)
policy = nn.Sequential(nn.Linear(7, 16), nn.Tanh(), nn.Linear(16, 2))
baseline = nn.Sequential(nn.Linear(7, 16), nn.Tanh(), nn.Linear(16, 1))
policy_opt = torch.optim.Adam(policy.parameters(), lr=5e-3)
baseline_opt = torch.optim.Adam(baseline.parameters(), lr=1e-2)
for number in range(120):
    states, logs, entropies, rewards = episode(policy)
    returns, running = [], 0.0
    for r in reversed(rewards):
        running = r + 0.95 * running
        returns.insert(0, running)
    returns = torch.tensor(returns)
    value = baseline(states).squeeze(-1)
    advantage = (returns - value).detach()
    policy_loss = -(logs * advantage).sum() - 0.01 * entropies.sum()
    policy_opt.zero_grad()
    policy_loss.backward()
    policy_opt.step()
    baseline_opt.zero_grad()
    nn.functional.mse_loss(value, returns).backward()
    baseline_opt.step()
    if number % 30 == 0:
        print(number, len(rewards))
