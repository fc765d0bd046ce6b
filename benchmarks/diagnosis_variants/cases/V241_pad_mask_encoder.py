"""Classify sequences of different lengths with a Transformer encoder."""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence


class SequenceClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 32, padding_idx=0)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.cls = nn.Parameter(torch.zeros(1, 1, 32))
        self.out = nn.Linear(32, 3)

    def forward(self, ids, lengths):
        x = torch.cat([self.cls.expand(len(ids), -1, -1), self.embed(ids)], 1)
        valid = torch.arange(x.size(1))[None] <= lengths[:, None]
        h = self.encoder(x, src_key_padding_mask=valid)
        return self.out(h[:, 0])


def collate(rows):
    lengths = torch.tensor([len(r) for r in rows])
    ids = pad_sequence(rows, batch_first=True)
    ids = torch.cat([ids, ids.new_zeros(len(rows), 2)], 1)
    labels = torch.stack([r.float().mean() for r in rows])
    return ids, lengths, (labels > 13).long() + (labels > 16).long()


torch.manual_seed(0)
model = SequenceClassifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(80):
    rows = [torch.randint(1, 30, (int(n),)) for n in torch.randint(3, 14, (32,))]
    ids, lengths, labels = collate(rows)
    loss = nn.functional.cross_entropy(model(ids, lengths), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
