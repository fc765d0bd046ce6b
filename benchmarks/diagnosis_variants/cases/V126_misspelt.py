import torch
from torch import nn

torch.manual_seed(34)


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.EmbeddingBag(200, 16)
        self.out = nn.Linear(16, 2)

    def forward(self, ids):
        return self.out(self.emb(ids))


def freeze_embeddings(model):
    model.emb.weight.requires_gradient = False


bag = Bag()
freeze_embeddings(bag)
opt = torch.optim.Adam(filter(lambda p: p.requires_grad, bag.parameters()), lr=5e-3)
for step in range(80):
    ids = torch.randint(0, 200, (32, 6))
    loss = nn.functional.cross_entropy(bag(ids), (ids.sum(1) % 7 > 3).long())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
