import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
emb, rnn, out = nn.Embedding(40, 24, padding_idx=0), nn.GRU(24, 24, batch_first=True), nn.Linear(24, 40)
model = nn.ModuleList([emb, rnn, out])
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(50):
    batches = []
    for length in (30, 4, 12, 7):
        ids = (torch.randint(1, 40, (8, 1)) + torch.arange(31)) % 39 + 1
        ids[:, length:] = 0
        batches.append(ids)
    tokens = sum((ids[:, 1:] != 0).sum() for ids in batches)
    optimizer.zero_grad()
    for ids in batches:
        logits = out(rnn(emb(ids[:, :-1]))[0])
        loss = F.cross_entropy(logits.reshape(-1, 40), ids[:, 1:].reshape(-1), ignore_index=0, reduction="sum")
        (loss / tokens).backward()
    optimizer.step()
print(loss.item())
