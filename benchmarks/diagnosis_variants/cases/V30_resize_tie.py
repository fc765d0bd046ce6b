import torch
from torch import nn


class TinyLM(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTM(dim, dim, batch_first=True)
        self.lm_head = nn.Linear(dim, vocab, bias=False)
        self.lm_head.weight = self.emb.weight

    def resize(self, vocab):
        old = self.emb.weight.data
        self.emb = nn.Embedding(vocab, old.shape[1])
        self.emb.weight.data[: len(old)] = old
        fresh = nn.Linear(old.shape[1], vocab, bias=False)
        fresh.weight.data[: len(old)] = self.lm_head.weight.data
        self.lm_head = fresh

    def forward(self, ids):
        return self.lm_head(self.rnn(self.emb(ids))[0])


torch.manual_seed(29)
model = TinyLM(24, 16)
model.resize(28)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
ids = torch.randint(0, 28, (160, 12))
for epoch in range(4):
    for i in torch.randperm(160).split(16):
        logits = model(ids[i, :-1])
        loss = nn.functional.cross_entropy(logits.transpose(1, 2), ids[i, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
