import torch
from torch import nn


class Caption(nn.Module):
    def __init__(self, vocab=30, dim=32):
        super().__init__()
        self.region = nn.Linear(10, dim)
        self.word = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(8, dim) * 0.1)
        layer = nn.TransformerDecoderLayer(dim, 4, 64, dropout=0.0, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, 1)
        self.out = nn.Linear(dim, vocab)

    def forward(self, regions, counts, words):
        valid = torch.arange(regions.shape[1])[None] < counts[:, None]
        causal = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
        h = self.word(words) + self.pos[: words.shape[1]]
        return self.out(self.decoder(h, self.region(regions), tgt_mask=causal, memory_key_padding_mask=valid))


torch.manual_seed(507)
names = torch.randn(29, 10)
model = Caption()
opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(100):
    counts = torch.randint(1, 6, (32,))
    what = torch.randint(1, 30, (32, 6))
    regions = names[what - 1] * (torch.arange(6)[None] < counts[:, None])[..., None]
    words = torch.cat([torch.zeros(32, 1, dtype=torch.long), what[:, :1].expand(-1, 4)], 1)
    loss = nn.functional.cross_entropy(model(regions, counts, words[:, :-1]).transpose(1, 2), words[:, 1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
