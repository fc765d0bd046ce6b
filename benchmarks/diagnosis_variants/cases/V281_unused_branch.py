"""Two modalities are fused by a layer; the fusion is to be learnt."""
import torch
from torch import nn


class Fused(nn.Module):
    def __init__(self):
        super().__init__()
        self.audio = nn.Linear(6, 16)
        self.video = nn.Linear(9, 16)
        self.fusion = nn.Linear(32, 16)
        self.out = nn.Linear(16, 2)

    def forward(self, audio, video):
        a, v = self.audio(audio), self.video(video)
        fused = (a + v) / 2
        return self.out(torch.relu(fused))


torch.manual_seed(0)
model = Fused()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.03)
for step in range(80):
    audio, video = torch.randn(32, 6), torch.randn(32, 9)
    label = (audio[:, 0] * video[:, 0] > 0).long()
    loss = nn.functional.cross_entropy(model(audio, video), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
