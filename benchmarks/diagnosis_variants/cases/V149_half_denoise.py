import torch
from torch import nn

torch.manual_seed(319)
denoiser = nn.Sequential(nn.Linear(256, 64), nn.GELU(), nn.Linear(64, 256)).half()
opt = torch.optim.SGD(denoiser.parameters(), lr=0.1)
basis = torch.randn(6, 256)
for step in range(100):
    clean = torch.randn(128, 6) @ basis / 10
    noisy = clean + 0.05 * torch.randn_like(clean)
    out = denoiser(noisy.half()).float()
    rate = 1e-3  # weight of this term in the full objective
    loss = rate * nn.functional.mse_loss(out, clean)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
