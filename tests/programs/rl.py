"""REINFORCE on an environment of its own; every episode has another length."""

import random

import torch
from results import FAULT_STEP, print_results
from torch import nn


class Walk:
    """The agent wins at +3 and loses at -3."""

    def reset(self):
        self.place, self.time = 0, 0
        return self.state()

    def state(self):
        return torch.tensor([float(self.place), float(self.time) / 10])

    def step(self, action):
        self.place += 1 if action == 1 else -1
        self.place -= random.random() < 0.2
        self.time += 1
        return self.state(), float(self.place >= 3), abs(self.place) >= 3 or self.time == 12


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(2, 8)
        self.dropout = nn.Dropout(0.2)
        self.affine2 = nn.Linear(8, 2)

    def forward(self, x):
        return self.affine2(torch.relu(self.dropout(self.affine1(x)))).softmax(-1)


random.seed(0)
torch.manual_seed(0)
env, policy = Walk(), Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
losses = []
for episode in range(8):
    state, done, log_probs, rewards = env.reset(), False, [], []
    while not done:
        choice = torch.distributions.Categorical(policy(state))
        action = choice.sample()
        log_probs.append(choice.log_prob(action))
        state, reward, done = env.step(action.item())
        rewards.append(reward)
    returns = torch.tensor([sum(rewards[index:]) + 0.01 * index for index in range(len(rewards))])
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    loss = -(torch.stack(log_probs) * returns).sum()
    if episode == FAULT_STEP:
        loss = loss + (loss - loss) / (loss - loss)  # FAULT
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print_results(losses, policy.state_dict())
