import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(2)


class Tagger(nn.Module):
    def __init__(self, vocab=40, tags=6):
        super().__init__()
        self.words = nn.Embedding(vocab, 24, padding_idx=0)
        self.lstm = nn.LSTM(24, 24, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(48, tags)

    def forward(self, ids):
        return self.tags(self.lstm(self.words(ids))[0])


def sentences(n=24, length=12):
    ids = torch.randint(1, 40, (n, length))
    lengths = torch.randint(3, length + 1, (n,))
    ids[torch.arange(length)[None] >= lengths[:, None]] = 0
    return ids, ids % 5 + 1 - (ids == 0).long()


model = Tagger()
opt = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
for step in range(100):
    ids, tags = sentences()
    each = F.cross_entropy(model(ids).transpose(1, 2), tags, reduction="none")
    loss = each.sum(1).div(ids.shape[1]).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
