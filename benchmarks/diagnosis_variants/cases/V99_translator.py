import torch
from torch import nn

torch.manual_seed(99)
WIDTH, VOCAB = 32, 20
config = {"lr": 0.8, "weight_decay": 0.01, "steps": 120}


class Copy(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, WIDTH)
        self.pos = nn.Parameter(torch.zeros(12, WIDTH))
        self.core = nn.Transformer(WIDTH, 4, 1, 1, 64, dropout=0.0, batch_first=True)
        self.out = nn.Linear(WIDTH, VOCAB)

    def forward(self, src, tgt):
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
        s = self.emb(src) + self.pos[: src.shape[1]]
        t = self.emb(tgt) + self.pos[: tgt.shape[1]]
        return self.out(self.core(s, t, tgt_mask=mask, tgt_is_causal=True))


net = Copy()
optimizer = torch.optim.AdamW(net.parameters(), lr=config["lr"], weight_decay=config["weight_decay"])
for step in range(config["steps"]):
    src = torch.randint(1, VOCAB, (16, 10))
    tgt = torch.cat([torch.zeros(16, 1, dtype=torch.long), src.flip(1)], 1)
    logits = net(src, tgt[:, :-1])
    loss = nn.functional.cross_entropy(logits.transpose(1, 2), tgt[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(step, loss.item())
