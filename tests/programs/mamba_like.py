"""A network like Mamba: a selective scan as a Python loop, an activation that forward builds."""

import torch
from results import FAULT_STEP, print_results
from torch import nn


class Mixer(nn.Module):
    def __init__(self, width=8, states=4):
        super().__init__()
        self.in_proj = nn.Linear(width, 2 * width, bias=False)
        self.conv1d = nn.Conv1d(width, width, 3, groups=width, padding=2)
        self.x_proj = nn.Linear(width, 2 * states + 1, bias=False)
        self.dt_proj = nn.Linear(1, width)
        self.A_log = nn.Parameter(torch.log(torch.arange(1.0, states + 1)).repeat(width, 1))
        self.D = nn.Parameter(torch.ones(width))
        self.out_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        act = nn.SiLU()
        hidden, gate = self.in_proj(x).transpose(1, 2).chunk(2, dim=1)
        hidden = act(self.conv1d(hidden)[..., : x.shape[1]])
        dt, b, c = self.x_proj(hidden.transpose(1, 2)).split([1, 4, 4], dim=-1)
        dt = nn.functional.softplus(self.dt_proj(dt)).transpose(1, 2)
        decay = torch.exp(-torch.exp(self.A_log)[None, :, None, :] * dt[..., None])
        update = dt[..., None] * b[:, None] * hidden[..., None]
        state = torch.zeros(x.shape[0], x.shape[2], 4)
        outputs = []
        for t in range(x.shape[1]):
            state = decay[:, :, t] * state + update[:, :, t]
            outputs.append(torch.matmul(state, c[:, t, :, None])[..., 0])
        scanned = torch.stack(outputs, -1) + hidden * self.D[:, None]
        return self.out_proj((scanned * nn.SiLU()(gate)).transpose(1, 2))


class MambaLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = nn.Embedding(16, 8)
        self.layers = nn.ModuleList(Mixer() for _ in range(2))
        self.lm_head = nn.Linear(8, 16)

    def forward(self, ids):
        x = self.embeddings(ids)
        for layer in self.layers:
            x = x + layer(x)
        return self.lm_head(x)


torch.manual_seed(0)
model = MambaLM()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
losses = []
for step in range(5):
    ids = torch.randint(16, (2, 8))
    logits = model(ids)
    loss = nn.CrossEntropyLoss()(logits[:, :-1].reshape(-1, 16), ids[:, 1:].reshape(-1))
    if step == FAULT_STEP:
        loss = loss + (loss - loss) / (loss - loss)  # FAULT
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print_results(losses, model.state_dict())
