import torch

torch.manual_seed(0)
weight = torch.nn.Parameter(torch.randn(4, 4))
optimizer = torch.optim.SGD([weight], lr=0.1)
mask = torch.eye(4).bool()
for step in range(2):
    optimizer.zero_grad()
    scores = (weight @ weight).masked_fill(mask, float("-inf"))
    bias = torch.log(-torch.ones(4, 4))
    scores.add_(bias)
    loss = torch.softmax(scores, -1).sum()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", float(loss.detach()))
