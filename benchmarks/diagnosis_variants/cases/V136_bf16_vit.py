import torch
from torch import nn

torch.manual_seed(306)


class TinyViT(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.patch = nn.Linear(16, dim)
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 5)

    def forward(self, images):
        patches = images.unfold(1, 4, 4).unfold(2, 4, 4).flatten(1, 2).flatten(2)
        tokens = torch.cat([self.cls.expand(len(images), -1, -1), self.patch(patches)], 1)
        return self.head(self.encoder(tokens)[:, 0])


def images(n):
    label = torch.randint(0, 5, (n,))
    x = 0.3 * torch.randn(n, 16, 16)
    for row, c in enumerate(label.tolist()):
        x[row, 3 * c : 3 * c + 3] += 1
    return x, label


model = TinyViT().to(torch.bfloat16)
opt = torch.optim.AdamW(model.parameters(), lr=5e-6, weight_decay=0.05)
for step in range(120):
    x, y = images(32)
    loss = nn.functional.cross_entropy(model(x.bfloat16()).float(), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(f"{step:4d} {loss.item():.4f}")
