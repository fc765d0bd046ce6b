"""Two generators, two critics, three optimizers, a replay buffer of images."""
import itertools
import random

import torch
from torch import nn


def mlp(a, b):
    return nn.Sequential(nn.Linear(a, 32), nn.LeakyReLU(0.2), nn.Linear(32, b))


torch.manual_seed(165)
random.seed(165)
to_b, to_a, judge_a, judge_b = mlp(4, 4), mlp(4, 4), mlp(4, 1), mlp(4, 1)
gen_opt = torch.optim.Adam(itertools.chain(to_a.parameters(), to_b.parameters()), lr=1e-3, betas=(0.5, 0.999))
a_opt = torch.optim.Adam(judge_a.parameters(), lr=1e-3, betas=(0.5, 0.999))
b_opt = torch.optim.Adam(judge_b.parameters(), lr=1e-3, betas=(0.5, 0.999))
schedulers = [torch.optim.lr_scheduler.LambdaLR(o, lambda e: 1 - max(0, e - 3) / 5) for o in (gen_opt, a_opt, b_opt)]
pool = []


def from_pool(fake):
    pool.append(fake.detach())
    return random.choice(pool[-50:])


def set_grad(nets, on):
    for net in nets:
        for p in net.parameters():
            p.requires_grad_(on)


mse = nn.functional.mse_loss
for epoch in range(5):
    for _ in range(20):
        a = torch.randn(32, 4) * 0.5 + 1
        b = torch.randn(32, 4) * 0.5 - 1
        set_grad((judge_a, judge_b), False)
        fake_b, fake_a = to_b(a), to_a(b)
        fooled = judge_b(fake_b), judge_a(fake_a)
        adversarial = sum(mse(f, torch.ones_like(f)) for f in fooled)
        cycle = nn.functional.l1_loss(to_a(fake_b), a) + nn.functional.l1_loss(to_b(fake_a), b)
        gen_opt.zero_grad()
        (adversarial + 10 * cycle).backward()
        gen_opt.step()
        set_grad((judge_a, judge_b), True)
        for judge, real, fake, opt in ((judge_a, a, fake_a, a_opt), (judge_b, b, fake_b, b_opt)):
            r, f = judge(real), judge(from_pool(fake))
            loss = mse(r, torch.ones_like(r)) + mse(f, torch.zeros_like(f))
            opt.zero_grad()
            loss.backward()
            opt.step()
    for s in schedulers:
        s.step()
    print(epoch, cycle.item(), adversarial.item())
