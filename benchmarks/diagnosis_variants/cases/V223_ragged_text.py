"""Train a small byte tagger with gradient accumulation over buckets of different lengths."""
import random

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, vocabulary=40, width=32, tags=6):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.encoder = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.output = nn.Linear(2 * width, tags)

    def forward(self, ids):
        hidden, _ = self.encoder(self.embedding(ids))
        return self.output(hidden)


class Fit:
    def __init__(self, model, accumulate):
        self.model = model
        self.accumulate = accumulate
        self.optimizer = torch.optim.RAdam(model.parameters(), lr=3e-3)
        self.loss = nn.CrossEntropyLoss(ignore_index=-100)

    def run(self, batches):
        total = 0.0
        for index, (ids, tags) in enumerate(batches):
            scores = self.model(ids)
            loss = self.loss(scores.flatten(0, 1), tags.flatten()) / self.accumulate
            loss.backward()
            total += loss.item()
            if (index + 1) % self.accumulate == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
        return total


def made_batches(number, seed):
    draw = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(number):
        length = draw.choice([3, 5, 24, 40])
        ids = torch.randint(1, 40, (8, length), generator=generator)
        tags = (ids + torch.roll(ids, 1, 1)) % 6
        real = torch.randint(1, length + 1, (8, 1), generator=generator)
        outside = torch.arange(length)[None] >= real
        yield ids.masked_fill(outside, 0), tags.masked_fill(outside, -100)


torch.manual_seed(0)
fit = Fit(Tagger(), accumulate=4)
for epoch in range(6):
    print(epoch, round(fit.run(made_batches(40, epoch)), 3))
