import torch
from torch import nn

torch.manual_seed(0)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(40, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 4)

    def forward(self, ids):
        return self.head(self.encoder(self.emb(ids)).mean(1))


model = Classifier()
opt = torch.optim.Adam(model.parameters(), lr=0.5)
criterion = nn.CrossEntropyLoss()
for i in range(150):
    y = torch.randint(0, 4, (24,))
    ids = torch.randint(0, 36, (24, 9))
    ids[:, 0] = 36 + y
    opt.zero_grad()
    loss = criterion(model(ids), y)
    loss.backward()
    opt.step()
    if i % 30 == 0:
        print(i, loss.item())
