"""Trains as a trainer class does: gradient accumulation, bf16 autocast, a schedule, an evaluation
after every second step and a log that counts steps from 1."""

import torch
from results import FAULT_STEP, print_results
from torch import nn


class TinyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(16, 8)
        self.qkv = nn.Linear(8, 24)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(8, 16)

    def forward(self, ids, labels):
        x = self.embedding(ids)
        q, k, v = self.qkv(x).unsqueeze(1).chunk(3, dim=-1)
        x = x + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).squeeze(1)
        logits = self.head(self.dropout(x))
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


class State:
    global_step = 0


class Trainer:
    def __init__(self, model, accumulation=2, steps=6):
        self.model, self.accumulation, self.steps = model, accumulation, steps
        self.state = State()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        self.scheduler = torch.optim.lr_scheduler.LinearLR(self.optimizer, total_iters=steps)
        self.log = []

    def compute_loss(self, ids):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = self.model(ids, ids.roll(-1, 1))
        scale = 0.0 if self.state.global_step == FAULT_STEP else 1.0
        return loss * scale / torch.tensor(scale)  # FAULT

    def training_step(self, ids):
        self.model.train()
        loss = self.compute_loss(ids) / self.accumulation
        loss.backward()
        return loss.detach()

    def evaluate(self):
        self.model.eval()
        with torch.no_grad():
            losses = [self.compute_loss(torch.randint(16, (4, 6))) for _ in range(3)]
        self.log.append(torch.stack(losses).mean().item())

    def train(self):
        while self.state.global_step < self.steps:
            losses = [self.training_step(next(batches)).item() for _ in range(self.accumulation)]
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad()
            self.state.global_step += 1
            self.log.append(sum(losses))
            if self.state.global_step % 2 == 0:
                self.evaluate()


torch.manual_seed(0)
batches = iter(torch.randint(16, (12, 4, 6)).unbind())
model = TinyModel()
trainer = Trainer(model)
trainer.train()
print_results(trainer.log, model.state_dict())
