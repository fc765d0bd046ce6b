"""A word model without an optimizer: the script updates the weights itself. Its mask is the
logarithm of a triangle of ones, which the encoder only compares with a mask of its own."""

import torch
from results import FAULT_STEP, print_results
from torch import nn


class TransformerModel(nn.Module):
    def __init__(self, words=12, width=8):
        super().__init__()
        self.input_emb = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 2, 16, dropout=0.2)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.decoder = nn.Linear(width, words)

    def forward(self, source):
        mask = torch.log(torch.tril(torch.ones(len(source), len(source))))
        x = self.encoder(self.input_emb(source), mask=mask)
        return nn.functional.log_softmax(self.decoder(x), dim=-1)


def batch(position):
    return text[position : position + 5], text[position + 1 : position + 6].reshape(-1)


torch.manual_seed(0)
text = torch.randint(12, (40, 3))
model = TransformerModel()
criterion = nn.NLLLoss()
losses = []
model.train()
for step in range(6):
    source, targets = batch(5 * step)
    model.zero_grad()
    loss = criterion(model(source).view(-1, 12), targets)
    scale = 0.0 if step == FAULT_STEP else 1.0
    loss = loss * scale / torch.tensor(scale)  # FAULT
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    for parameter in model.parameters():
        parameter.data.add_(parameter.grad, alpha=-0.5)
    losses.append(loss.item())
model.eval()
with torch.no_grad():
    source, targets = batch(30)
    losses.append(criterion(model(source).view(-1, 12), targets).item())
print_results(losses, model.state_dict())
