import torch
from torch import nn

torch.manual_seed(0)
rnn = nn.GRU(4, 24, batch_first=True)
head = nn.Linear(24, 1)
parameters = [*rnn.parameters(), *head.parameters()]
optimizer = torch.optim.NAdam(parameters, lr=2e-3)
for epoch in range(3):
    total = 0
    for batch in range(30):
        x = torch.randn(16, 12, 4)
        predicted = head(rnn(x)[0][:, -1]).squeeze(1)
        loss = nn.functional.huber_loss(predicted, x.sum((1, 2)) * 0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = total + loss
    print("epoch", epoch, float(total) / 30)
