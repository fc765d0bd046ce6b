import torch


def init(sizes):
    params = {}
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:]), 1):
        params[f"w{i}"] = torch.zeros(a, b, requires_grad=True)
        params[f"b{i}"] = torch.zeros(b, requires_grad=True)
    return params


def apply(params, x, depth):
    for i in range(1, depth + 1):
        x = x @ params[f"w{i}"] + params[f"b{i}"]
        if i < depth:
            x = torch.tanh(x)
    return x


torch.manual_seed(317)
params = init([8, 32, 32, 2])
opt = torch.optim.Adam(params.values(), lr=1e-2)
rule = torch.randn(8, 2)
for step in range(120):
    x = torch.randn(64, 8)
    loss = (apply(params, x, 3) - torch.tanh(x @ rule)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(step, loss.item())
