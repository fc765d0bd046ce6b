"""Sequence tagging; padding has label -100 and a packed bidirectional LSTM."""
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 16, padding_idx=0)
        self.drop = nn.Dropout(0.5)
        self.rnn = nn.LSTM(16, 16, batch_first=True, bidirectional=True)
        self.out = nn.Linear(32, 4)

    def forward(self, tokens, lengths):
        x = pack_padded_sequence(self.drop(self.emb(tokens)), lengths, batch_first=True, enforce_sorted=False)
        y, _ = pad_packed_sequence(self.rnn(x)[0], batch_first=True)
        return self.out(self.drop(y))


def batch(n=20):
    words = [torch.randint(1, 50, (random.randint(3, 15),)) for _ in range(n)]
    tags = [w % 4 for w in words]
    lengths = torch.tensor([len(w) for w in words])
    return pad_sequence(words, True, 0), lengths, pad_sequence(tags, True, -100)


random.seed(162)
torch.manual_seed(162)
net = Tagger()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(100):
    tokens, lengths, tags = batch()
    loss = nn.functional.cross_entropy(net(tokens, lengths).transpose(1, 2), tags, ignore_index=-100)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 25 == 0:
        print(step, loss.item())
