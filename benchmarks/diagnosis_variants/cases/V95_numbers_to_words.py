"""Sequence to sequence: reverse digit strings of different lengths."""
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

PAD, BOS, EOS = 0, 1, 2


class Seq2Seq(nn.Module):
    def __init__(self, tokens=13, width=32):
        super().__init__()
        self.source = nn.Embedding(tokens, width, padding_idx=PAD)
        self.target = nn.Embedding(tokens, width, padding_idx=PAD)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.project = nn.Linear(width, tokens)

    def forward(self, source, lengths, target):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.source(source), lengths, batch_first=True, enforce_sorted=False
        )
        _, state = self.encoder(packed)
        out, _ = self.decoder(self.target(target), state)
        return self.project(out)


def batch(n=24):
    sources, targets = [], []
    for _ in range(n):
        digits = [random.randint(3, 12) for _ in range(random.randint(2, 12))]
        sources.append(torch.tensor(digits))
        targets.append(torch.tensor([BOS, *reversed(digits), EOS]))
    lengths = torch.tensor([len(s) for s in sources])
    pad = lambda seqs: pad_sequence(seqs, batch_first=True, padding_value=PAD)
    return pad(sources), lengths, pad(targets)


random.seed(95)
torch.manual_seed(95)
model = Seq2Seq()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(120):
    source, lengths, target = batch()
    logits = model(source, lengths, target[:, :-1])
    loss = criterion(logits.flatten(0, 1), target[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(step, loss.item())
