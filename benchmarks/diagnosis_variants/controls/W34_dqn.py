import copy
import random
from collections import deque

import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
online = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
target = copy.deepcopy(online)
optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
replay = deque(maxlen=500)
state = torch.randn(4)
for step in range(300):
    action = random.randrange(2) if random.random() < 0.2 else int(online(state).argmax())
    following = torch.randn(4)
    reward = float(action == int(state[0] > 0))
    replay.append((state, action, reward, following))
    state = following
    if len(replay) < 64 or step % 2:
        continue
    states, actions, rewards, nexts = zip(*random.sample(replay, 32))
    with torch.no_grad():
        wanted = torch.tensor(rewards) + 0.9 * target(torch.stack(nexts)).amax(1)
    value = online(torch.stack(states)).gather(1, torch.tensor(actions)[:, None]).squeeze(1)
    loss = nn.functional.smooth_l1_loss(value, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        target.load_state_dict(online.state_dict())
print(loss.item())
