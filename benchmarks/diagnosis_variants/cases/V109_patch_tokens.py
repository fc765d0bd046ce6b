import torch
from torch import nn

torch.manual_seed(9)


class Vit(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.patch = nn.Conv2d(3, d, 4, 4)
        self.pos = nn.Parameter(torch.randn(16, d) * 0.02)
        self.block = nn.TransformerEncoderLayer(d, 4, 48, dropout=0.0, batch_first=True)
        self.out = nn.Linear(d, 5)

    def forward(self, image):
        maps = self.patch(image)
        b, c, h, w = maps.shape
        tokens = maps.reshape(b, h * w, c)
        return self.out(self.block(tokens + self.pos).mean(1))


y = torch.randint(0, 5, (256,))
images = torch.randn(5, 3, 16, 16)[y] + torch.randn(256, 3, 16, 16)
net = Vit()
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for epoch in range(5):
    for rows in torch.randperm(256).split(32):
        loss = nn.functional.cross_entropy(net(images[rows]), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, round(loss.item(), 4))
