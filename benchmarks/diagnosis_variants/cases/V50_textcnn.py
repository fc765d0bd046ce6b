import torch
from torch import nn
import torch.nn.functional as F


class TextCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(80, 16)
        self.convs = [nn.Conv1d(16, 12, k, padding=k // 2) for k in (3, 5)]
        self.fc = nn.Linear(24, 3)

    def forward(self, ids):
        x = self.emb(ids).transpose(1, 2)
        pooled = [F.relu(conv(x)).amax(2) for conv in self.convs]
        return self.fc(torch.cat(pooled, 1))


torch.manual_seed(0)
net = TextCNN()
sgd = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9, nesterov=True)
for epoch in range(4):
    for _ in range(25):
        y = torch.randint(0, 3, (16,))
        ids = torch.randint(0, 60, (16, 14))
        ids[:, 4] = 60 + y
        sgd.zero_grad()
        F.cross_entropy(net(ids), y).backward()
        sgd.step()
print("done")
