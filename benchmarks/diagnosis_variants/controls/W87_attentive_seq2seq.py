import torch
from torch import nn

torch.manual_seed(404)
PAD, BOS, VOCAB = 0, 1, 22


class Model(nn.Module):
    def __init__(self, d=40):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, d, padding_idx=PAD)
        self.enc = nn.LSTM(d, d // 2, bidirectional=True, batch_first=True)
        self.cell = nn.LSTMCell(2 * d, d)
        self.out = nn.Linear(2 * d, VOCAB)

    def forward(self, src, tgt):
        memory, _ = self.enc(self.emb(src))
        pad = src == PAD
        h = memory.mean(1)
        c = torch.zeros_like(h)
        context, logits = torch.zeros_like(h), []
        for t in range(tgt.shape[1]):
            h, c = self.cell(torch.cat([self.emb(tgt[:, t]), context], 1), (h, c))
            score = (memory @ h[..., None]).squeeze(-1).masked_fill(pad, -1e9)
            context = (score.softmax(1)[..., None] * memory).sum(1)
            logits.append(self.out(torch.cat([h, context], 1)))
        return torch.stack(logits, 1)


net = Model()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(120):
    length = torch.randint(3, 8, (24, 1))
    src = torch.randint(2, VOCAB, (24, 7)).masked_fill(torch.arange(7)[None] >= length, PAD)
    tgt = torch.cat([torch.full((24, 1), BOS), src], 1)
    loss = nn.functional.cross_entropy(net(src, tgt[:, :-1]).transpose(1, 2), tgt[:, 1:], ignore_index=PAD)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
