import torch
from torch import nn
import torch.nn.functional as F


class TinyRPN(nn.Module):
    def __init__(self, channels=12):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
        self.score = nn.Conv2d(channels, 1, 1)
        self.box = nn.Conv2d(channels, 4, 1)

    def forward(self, img):
        f = self.body(img)
        return self.score(f).squeeze(1), self.box(f).permute(0, 2, 3, 1)


def detection_loss(score, box, is_object, offsets):
    cls = F.binary_cross_entropy_with_logits(score, is_object.float())
    reg = F.smooth_l1_loss(box[is_object], offsets[is_object])
    return cls + reg


torch.manual_seed(4)
net = TinyRPN()
opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, nesterov=True)
for it in range(60):
    img = 0.1 * torch.randn(4, 1, 8, 8)
    is_object = torch.zeros(4, 8, 8, dtype=torch.bool)
    for b in range(4):
        for _ in range(int(torch.randint(0, 3, ()))):
            r, c = torch.randint(0, 8, (2,)).tolist()
            is_object[b, r, c] = True
            img[b, 0, r, c] += 3
    loss = detection_loss(*net(img), is_object, torch.randn(4, 8, 8, 4))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 10 == 0:
        print(it, loss.item())
# one picture at a time, as in fine-tuning with little memory
for it in range(40):
    img = 0.1 * torch.randn(1, 1, 8, 8)
    is_object = torch.zeros(1, 8, 8, dtype=torch.bool)
    if torch.rand(()) < 0.8:
        is_object[0, int(torch.randint(0, 8, ())), 3] = True
    loss = detection_loss(*net(img), is_object, torch.randn(1, 8, 8, 4))
    opt.zero_grad()
    loss.backward()
    opt.step()
print("last", loss.item())
