import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")


class Attention(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.proj = nn.Linear(hidden, hidden)
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, states):
        energy = self.v(torch.tanh(self.proj(states)))
        alpha = F.softmax(energy)
        return (alpha * states).sum(1)


class SentimentGRU(nn.Module):
    def __init__(self, vocab=60, hidden=32):
        super().__init__()
        self.embedding = nn.Embedding(vocab, 24)
        self.gru = nn.GRU(24, hidden, batch_first=True)
        self.attention = Attention(hidden)
        self.out = nn.Linear(hidden, 2)

    def forward(self, tokens):
        states, _ = self.gru(self.embedding(tokens))
        return self.out(self.attention(states))


torch.manual_seed(3)
tokens = torch.randint(0, 60, (400, 15))
labels = (tokens < 8).any(1).long()
model = SentimentGRU()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(8):
    order = torch.randperm(400)
    for i in range(0, 400, 50):
        idx = order[i : i + 50]
        loss = F.cross_entropy(model(tokens[idx]), labels[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", round(loss.item(), 4))
