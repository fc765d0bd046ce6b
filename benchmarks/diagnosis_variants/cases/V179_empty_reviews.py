import torch
from torch import nn

PAD = 0


class ReviewEncoder(nn.Module):
    def __init__(self, vocab=200, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.norm = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.fc = nn.Linear(dim, 2)

    def forward(self, tokens):
        padding = tokens == PAD
        x = self.embed(tokens)
        mixed, weights = self.attn(self.norm(x), x, x, key_padding_mask=padding)
        h = (x + mixed).masked_fill(padding.unsqueeze(-1), 0).sum(1)
        return self.fc(h / (~padding).sum(1, keepdim=True).clamp(min=1))


def batch(n, empty):
    length = torch.randint(3, 13, (n,))
    if empty:
        length[torch.randint(0, n, ())] = 0
    t = torch.randint(1, 200, (n, 12))
    t[torch.arange(12) >= length[:, None]] = PAD
    return t, (t > 100).sum(1).gt(length // 2).long()


torch.manual_seed(8)
net = ReviewEncoder()
opt = torch.optim.NAdam(net.parameters(), lr=1e-3)
for step in range(60):
    t, y = batch(32, empty=step == 23)
    loss = nn.functional.cross_entropy(net(t), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(step, loss.item())
