"""Seq2seq: copy a sequence in reverse order with an attention-free GRU pair."""
import torch
from torch import nn

PAD, BOS, VOCAB = 0, 1, 20


class Reverser(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.source = nn.Embedding(VOCAB, width, padding_idx=PAD)
        self.target = nn.Embedding(VOCAB, width, padding_idx=PAD)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, VOCAB)

    def forward(self, source, lengths, previous):
        packed = nn.utils.rnn.pack_padded_sequence(self.source(source), lengths, batch_first=True, enforce_sorted=False)
        _, state = self.encoder(packed)
        hidden, _ = self.decoder(self.target(previous), state)
        return self.out(hidden)


def batch(size):
    lengths = torch.randint(2, 13, (size,))
    source = torch.full((size, 12), PAD)
    target = torch.full((size, 12), PAD)
    for row, n in enumerate(lengths.tolist()):
        symbols = torch.randint(2, VOCAB, (n,))
        source[row, :n] = symbols
        target[row, :n] = symbols.flip(0)
    previous = torch.cat([torch.full((size, 1), BOS), target[:, :-1]], 1)
    return source, lengths, previous, target


torch.manual_seed(1)
model = Reverser()
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(100):
    source, lengths, previous, target = batch(32)
    logits = model(source, lengths, previous)
    loss = criterion(logits.transpose(1, 2), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
