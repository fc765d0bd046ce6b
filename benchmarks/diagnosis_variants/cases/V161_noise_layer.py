import torch
from torch import nn


class WordDrop(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        keep = (torch.rand(x.shape[:2]) > self.p).float()[..., None]
        return x * keep / (1 - self.p)


class Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(100, 24)
        self.drop = WordDrop(0.3)
        self.lstm = nn.LSTM(24, 24, batch_first=True)
        self.out = nn.Linear(24, 2)

    def forward(self, t):
        return self.out(self.lstm(self.drop(self.emb(t)))[0].mean(1))


torch.manual_seed(504)
text = torch.randint(0, 100, (400, 12))
mood = ((text % 10).float().mean(1) > 4.5).long()
net = Sentiment()
opt = torch.optim.Adam(net.parameters(), lr=4e-3)
for epoch in range(6):
    net.train()
    for rows in torch.randperm(320).split(32):
        loss = nn.functional.cross_entropy(net(text[rows]), mood[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        print(epoch, (net(text[320:]).argmax(1) == mood[320:]).float().mean().item())
