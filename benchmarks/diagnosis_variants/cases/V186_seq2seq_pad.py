import torch
from torch import nn

PAD, BOS, EOS, V = 0, 1, 2, 30


class Seq2Seq(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.src, self.tgt = nn.Embedding(V, dim, padding_idx=PAD), nn.Embedding(V, dim, padding_idx=PAD)
        self.enc, self.dec = nn.GRU(dim, dim, batch_first=True), nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, V)

    def forward(self, src, tgt):
        _, h = self.enc(self.src(src))
        y, _ = self.dec(self.tgt(tgt), h)
        return self.out(y)


def collate(n):
    rows = []
    for _ in range(n):
        length = int(torch.randint(2, 12, ()))
        rows.append(torch.randint(3, V, (length,)))
    src = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    tgt = nn.utils.rnn.pad_sequence(
        [torch.cat([torch.tensor([BOS]), r.flip(0), torch.tensor([EOS])]) for r in rows], batch_first=True
    )
    return src, tgt


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
        self.criterion = nn.CrossEntropyLoss()

    def step(self, src, tgt):
        self.optimizer.zero_grad()
        logits = self.model(src, tgt[:, :-1])
        loss = self.criterion(logits.reshape(-1, V), tgt[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()


torch.manual_seed(6)
trainer = Trainer(Seq2Seq())
for it in range(120):
    value = trainer.step(*collate(24))
    if it % 20 == 0:
        print(it, value)
