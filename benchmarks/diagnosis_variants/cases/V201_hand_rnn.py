import torch


def init(shape, g):
    return torch.randn(*shape, generator=g).requires_grad_()


g = torch.Generator().manual_seed(4)
W_x, W_h, b = init((3, 24), g), init((24, 24), g), torch.zeros(24, requires_grad=True)
W_o = init((24, 1), g)
params = [W_x, W_h, b, W_o]


def rnn(x):
    h = x.new_zeros(x.shape[0], 24)
    for t in range(x.shape[1]):
        h = torch.relu(x[:, t] @ W_x + h @ W_h + b)
    return h @ W_o


for it in range(60):
    x = torch.rand(16, 30, 3, generator=g)
    y = x[:, :, 0].sum(1, keepdim=True)
    loss = ((rnn(x) - y) ** 2).mean()
    grads = torch.autograd.grad(loss, params)
    with torch.no_grad():
        for p, d in zip(params, grads):
            p -= 1e-3 * d
    print(it, loss.item())
