"""A network like T5: one embedding for input and output, position buckets whose logarithm of 0 is
replaced by torch.where, a mask of the smallest number, a loss that forward builds."""

import math

import torch
from results import FAULT_STEP, print_results
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads, buckets):
        super().__init__()
        self.heads, self.buckets = heads, buckets
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.relative_attention_bias = nn.Embedding(buckets, heads)

    def bucket(self, distance):
        exact = self.buckets // 2
        large = torch.log(distance.float() / exact) / math.log(16 / exact) * exact
        large = torch.clamp(exact + large, max=self.buckets - 1).long()
        return torch.where(distance < exact, distance, large)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            layer(x).view(batch, length, self.heads, -1).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        position = torch.arange(length)
        distance = (position[:, None] - position[None, :]).abs()
        bias = self.relative_attention_bias(self.bucket(distance)).permute(2, 0, 1)
        mask = torch.full((length, length), torch.finfo(x.dtype).min).triu(1)
        weights = (q @ k.transpose(2, 3) + bias + mask).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).reshape(batch, length, width))


class T5(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Embedding(16, 8)
        self.block = nn.ModuleList(Attention(8, 2, 8) for _ in range(2))
        self.norm = nn.RMSNorm(8)
        self.lm_head = nn.Linear(8, 16, bias=False)
        self.lm_head.weight = self.shared.weight

    def forward(self, ids, labels, scale):
        x = self.shared(ids)
        for layer in self.block:
            x = x + layer(x)
        logits = self.lm_head(self.norm(x) * 8**-0.5)
        loss_fct = nn.CrossEntropyLoss(ignore_index=-100)
        loss = loss_fct(logits.view(-1, 16), labels.view(-1))
        return loss * scale / torch.tensor(scale)  # FAULT


torch.manual_seed(0)
model = T5()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
losses = []
for step in range(6):
    ids = torch.randint(16, (4, 6))
    loss = model(ids, ids, 0.0 if step == FAULT_STEP else 1.0)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
print_results(losses, model.state_dict())
