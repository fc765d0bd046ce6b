import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, vocabulary=50, width=24, tags=4):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, tags)

    def forward(self, tokens):
        states, _ = self.lstm(self.embed(tokens))
        return self.out(states)


def update(model, optimizer, loss):
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    model.zero_grad(set_to_none=False)
    optimizer.step()


torch.manual_seed(2)
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
loss_of = nn.CrossEntropyLoss()
for step in range(100):
    tokens = torch.randint(0, 50, (16, 11))
    loss = loss_of(model(tokens).transpose(1, 2), tokens % 4)
    update(model, optimizer, loss)
    if step % 25 == 0:
        print(step, loss.item())
