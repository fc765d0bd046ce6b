import torch
from torch import nn

torch.manual_seed(59)
layer = nn.TransformerEncoderLayer(24, 4, 48, batch_first=True, norm_first=True)
model = nn.Sequential(nn.Linear(6, 24), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(24, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.SequentialLR(
    optimizer,
    [torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: s / 60),
     torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 60)],
    milestones=[60])
for step in range(110):
    x = torch.randn(16, 7, 6)
    loss = nn.functional.mse_loss(model(x), x.cumsum(1)[..., :1])
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
