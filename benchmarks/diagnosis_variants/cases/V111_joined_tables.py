import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(12)
patients = rng.permutation(800)
sick = (patients % 3 == 0).astype("float32")
values = rng.normal(size=(800, 8)).astype("float32") + 2.0 * sick[:, None] * (np.arange(8) % 2)
by_id = np.argsort(patients)
values, outcome = values[by_id], sick
x, y = torch.from_numpy(values.astype("float32")), torch.from_numpy(outcome)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(6):
    total = 0.0
    for rows in torch.randperm(800).split(40):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x[rows])[:, 0], y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() / 20
    print(epoch, round(total, 4))
