import torch
from torch import nn

torch.manual_seed(320)
PAD, VOCAB, MICRO = 0, 30, 4


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, 24, padding_idx=PAD)
        self.enc = nn.GRU(24, 48, batch_first=True)
        self.dec = nn.GRU(24, 48, batch_first=True)
        self.out = nn.Linear(48, VOCAB)

    def forward(self, src, tgt):
        _, h = self.enc(self.emb(src))
        y, _ = self.dec(self.emb(tgt), h)
        return self.out(y)


def pairs(n):
    length = int(torch.randint(2, 30, ()))
    src = torch.randint(2, VOCAB, (n, length))
    tgt = torch.cat([torch.ones(n, 1, dtype=torch.long), src.flip(1)], 1)
    drop = torch.arange(length + 1)[None] > torch.randint(1, length + 1, (n, 1))
    return src, tgt.masked_fill(drop, PAD)


net = Seq2Seq()
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
opt = torch.optim.Adamax(net.parameters(), lr=2e-3)
for update in range(40):
    opt.zero_grad()
    for micro in range(MICRO):
        src, tgt = pairs(8)
        logits = net(src, tgt[:, :-1])
        loss = criterion(logits.reshape(-1, VOCAB), tgt[:, 1:].reshape(-1))
        (loss / MICRO).backward()
    opt.step()
    if update % 10 == 0:
        print(update, loss.item())
