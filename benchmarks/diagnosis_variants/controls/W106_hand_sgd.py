import random
import torch

torch.manual_seed(606)
random.seed(606)
w1 = (torch.randn(9, 32) / 3).requires_grad_()
w2 = (torch.randn(32, 1) / 6).requires_grad_()
data = [(torch.randn(9), i) for i in range(240)]
true = torch.randn(9)
for epoch in range(6):
    random.shuffle(data)
    for at in range(0, 240, 24):
        x = torch.stack([d[0] for d in data[at : at + 24]])
        loss = (torch.relu(x @ w1) @ w2 - (x @ true)[:, None]).square().mean()
        g1, g2 = torch.autograd.grad(loss, [w1, w2])
        with torch.no_grad():
            w1 -= 0.03 * g1
            w2 -= 0.03 * g2
    print(epoch, loss.item())
