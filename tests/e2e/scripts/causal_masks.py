"""A healthy net: infinities are put into the scores by every mask people use, and stay there."""

import torch
from torch import nn
from torch.nn import functional


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.register_buffer("mask", torch.full((5, 5), float("-inf")).triu(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        above = torch.ones(5, 5).triu(1).bool()
        scores = x @ x.transpose(1, 2)
        x = scores.masked_fill(above, float("-inf")).softmax(-1) @ x
        x = (x @ x.transpose(1, 2) + self.mask).softmax(-1) @ x
        x = torch.where(above, torch.tensor(float("-inf")), x @ x.transpose(1, 2)).softmax(-1) @ x
        x = functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        x = self.encoder(x, nn.Transformer.generate_square_subsequent_mask(5), is_causal=True)
        padding = torch.arange(5) >= torch.tensor([[4], [5]])
        x, _ = self.attention(x, x, x, key_padding_mask=padding)
        kept = functional.log_softmax(x.masked_fill(above[:1].any(0)[:1], float("-inf")), -1)
        return functional.nll_loss(kept[:, -1, :], torch.tensor([3, 4]))


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.Adam(net.parameters())
lowest = torch.tensor(float("inf"))
for _ in range(8):
    optimizer.zero_grad()
    loss = net(torch.randn(2, 5, 8))
    loss.backward()
    optimizer.step()
    lowest = torch.minimum(lowest, loss.detach())
