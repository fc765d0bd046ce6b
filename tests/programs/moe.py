"""A mixture of experts: in each step other tokens, and other numbers of them, go to an expert;
an expert without tokens does not run."""

import torch
from results import FAULT_STEP, print_results
from torch import nn


class SparseMoe(nn.Module):
    def __init__(self, width=8, experts=4):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 8), nn.SiLU(), nn.Linear(8, width))
            for _ in range(experts)
        )

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            tokens, slot = torch.where(chosen == number)
            if len(tokens):
                found = expert(x[tokens]) * weights[tokens, slot, None]
                result.index_add_(0, tokens, found)
        return x + result


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), SparseMoe(), nn.Linear(8, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
losses = []
for step in range(8):
    x = torch.randn(3, 4)
    loss = nn.functional.mse_loss(model(x), x)
    scale = 0.0 if step == FAULT_STEP else 1.0
    loss = loss * scale / torch.tensor(scale)  # FAULT
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print_results(losses, model.state_dict())
