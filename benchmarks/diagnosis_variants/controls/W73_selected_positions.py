"""The loss of each token, of which only those that are no padding are averaged; another term sums
rows with their lengths."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(4)


class Model(nn.Module):
    def __init__(self, vocab=32, d=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, padding_idx=0)
        layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(d, vocab)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.out(self.enc(self.emb(ids), mask, ids == 0))


def batch(n=20, length=10):
    ids = torch.cumsum(torch.randint(1, 3, (n, length)), 1) % 31 + 1
    lengths = torch.randint(4, length + 1, (n,))
    return ids * (torch.arange(length)[None] < lengths[:, None]), lengths


model = Model()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(90):
    ids, lengths = batch()
    logits = model(ids[:, :-1])
    goal = ids[:, 1:]
    each = F.cross_entropy(logits.transpose(1, 2), goal, reduction="none")
    keep = goal != 0
    first = each[keep].mean()
    second = ((each * keep).sum(1) / keep.sum(1).clamp(min=1)).mean()
    loss = (first + second) / 2
    opt.zero_grad(set_to_none=False)
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
