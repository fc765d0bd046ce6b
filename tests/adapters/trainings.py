"""Small trainings of every kind. Each returns all its losses and final weights."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

Training = Callable[[], Any]
TRAININGS: dict[str, Training] = {}


def training(function: Training) -> Training:
    TRAININGS[function.__name__] = function
    return function


def weights(*modules: nn.Module) -> list[torch.Tensor]:
    return [value.clone() for module in modules for value in module.state_dict().values()]


def fit(
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    make: Callable[[], tuple[torch.Tensor, torch.Tensor]],
    loss_of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = functional.mse_loss,
    steps: int = 3,
) -> list[Any]:
    losses = []
    for _ in range(steps):
        x, y = make()
        optimizer.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, weights(net)]


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 2))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(5, 4), torch.randn(5, 2)


@training
def an_mlp() -> Any:
    net = mlp()
    return fit(net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), batch)


@training
def a_cnn_with_batch_norm_and_dropout() -> Any:
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.Dropout(0.3),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 3),
    )
    return fit(
        net,
        torch.optim.Adam(net.parameters()),
        lambda: (torch.randn(4, 1, 8, 8), torch.randint(3, (4,))),
        functional.cross_entropy,
    )


@training
def a_transformer() -> Any:
    net = nn.Sequential(
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True), nn.Linear(8, 2)
    )
    return fit(
        net,
        torch.optim.AdamW(net.parameters()),
        lambda: (torch.randn(2, 5, 8), torch.randn(2, 5, 2)),
    )


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.cell = kind(3, 4, num_layers=2, dropout=0.2, batch_first=True)
        self.out = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.cell(x)[0])


def _recurrent(kind: type[nn.RNNBase]) -> Any:
    net = Recurrent(kind)
    return fit(
        net,
        torch.optim.RMSprop(net.parameters()),
        lambda: (torch.randn(2, 6, 3), torch.randn(2, 6, 1)),
    )


@training
def an_rnn() -> Any:
    return _recurrent(nn.RNN)


@training
def an_lstm() -> Any:
    return _recurrent(nn.LSTM)


@training
def autocast_bfloat16() -> Any:
    net = mlp()

    def loss_of(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(output.float(), y)

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        x, y = batch()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, weights(net)]


@training
def a_grad_scaler() -> Any:
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**15, growth_interval=2)
    losses: list[Any] = []
    for number in range(4):
        x, y = batch()
        if number == 1:
            x = x * 1e20  # the gradients overflow and the step is skipped
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = functional.mse_loss(net(x).float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append((repr(loss.item()), scaler.get_scale()))
    return [losses, weights(net)]


def _optimizer_kind(make: Callable[[Any], torch.optim.Optimizer]) -> Training:
    def train() -> Any:
        net = mlp()
        return fit(net, make(net.parameters()), batch)

    return train


for _name, _make in {
    "foreach_adam": lambda p: torch.optim.Adam(p, foreach=True),
    "fused_adam": lambda p: torch.optim.Adam(p, fused=True),
    "fused_sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "amsgrad_with_a_tensor_rate": lambda p: torch.optim.Adam(
        p, lr=torch.tensor(0.01), amsgrad=True, foreach=False, maximize=True
    ),
    "adagrad": lambda p: torch.optim.Adagrad(p),
    "adafactor": lambda p: torch.optim.Adafactor(p),
}.items():
    TRAININGS[_name] = _optimizer_kind(_make)


@training
def an_lbfgs_closure() -> Any:
    net = mlp()
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=3)
    x, y = batch()
    losses = []
    for _ in range(2):

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = functional.mse_loss(net(x), y)
            loss.backward()
            return loss

        losses.append(float(optimizer.step(closure)))
    return [losses, weights(net)]


@training
def gradient_accumulation() -> Any:
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        for _ in range(3):
            x, y = batch()
            loss = functional.mse_loss(net(x), y) / 3
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
    return [losses, weights(net)]


@training
def two_optimizers() -> Any:
    maker, judge = nn.Linear(2, 4), nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(), nn.Linear(6, 1))
    first = torch.optim.Adam(maker.parameters())
    second = torch.optim.Adam(judge.parameters())
    losses = []
    for _ in range(3):
        real, noise = torch.randn(3, 4), torch.randn(3, 2)
        second.zero_grad()
        loss = (
            functional.softplus(-judge(real)).mean()
            + functional.softplus(judge(maker(noise).detach())).mean()
        )
        loss.backward()
        second.step()
        first.zero_grad()
        fooled = functional.softplus(-judge(maker(noise))).mean()
        fooled.backward()
        first.step()
        losses += [loss.item(), fooled.item()]
    return [losses, weights(maker, judge)]


def _checkpointed(use_reentrant: bool) -> Any:
    net = nn.ModuleList(
        [nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.2), nn.Tanh()) for _ in range(2)]
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        x = torch.randn(3, 4, requires_grad=True)
        optimizer.zero_grad()
        for block in net:
            x = checkpoint(block, x, use_reentrant=use_reentrant)
        loss = x.square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, weights(net)]


@training
def checkpointing_with_reentry() -> Any:
    return _checkpointed(True)


@training
def checkpointing_without_reentry() -> Any:
    return _checkpointed(False)


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x * x * gradient


@training
def a_custom_function() -> Any:
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        x, _ = batch()
        optimizer.zero_grad()
        loss = Cubed.apply(net(x)).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, weights(net)]


@training
def a_gradient_penalty() -> Any:
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        x = torch.randn(5, 4, requires_grad=True)
        optimizer.zero_grad()
        (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        loss = (slope.norm(dim=1) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, weights(net)]


@training
def evaluation_in_between() -> Any:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    results = []
    for number in range(4):
        net.train()
        results.append(fit(net, optimizer, batch, steps=1))
        net.eval()
        with torch.inference_mode() if number % 2 else torch.no_grad():
            results.append(net(batch()[0]).clone())
    return results


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.blocks = [nn.Linear(4, 4)]
        self.table = {"up": nn.Linear(4, 4)}
        self.extra = nn.ParameterList([self.blocks[0].weight, self.table["up"].weight])
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight
        self.scale = torch.tensor(0.5)
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embed(x) * self.scale + self.shift
        for _ in range(2):
            h = torch.tanh(self.blocks[0](h))
        return self.head(self.table["up"](h))


@training
def tied_weights_and_modules_in_plain_lists() -> Any:
    net = Tied()
    return fit(
        net,
        torch.optim.SGD(net.parameters(), lr=0.1),
        lambda: (torch.randint(7, (3, 2)), torch.randint(7, (3, 2))),
        lambda output, y: functional.cross_entropy(output.flatten(0, 1), y.flatten()),
    )


@training
def parametrizations() -> Any:
    net = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
        nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)),
        nn.utils.parametrizations.orthogonal(nn.Linear(4, 2, bias=False)),
    )
    return fit(net, torch.optim.SGD(net.parameters(), lr=0.1), batch)


@training
def functional_transforms() -> Any:
    net = mlp()
    parameters = {name: value.detach() for name, value in net.named_parameters()}
    losses = []
    for _ in range(3):
        x, y = batch()

        def loss_of(values: Any, x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
            return functional.mse_loss(torch.func.functional_call(net, values, (x,)), y)

        gradients, loss = torch.func.grad_and_value(loss_of)(parameters)
        each = torch.func.vmap(
            lambda row, values=parameters: torch.func.functional_call(net, values, (row,))
        )(x)
        parameters = {name: value - 0.1 * gradients[name] for name, value in parameters.items()}
        losses += [loss.item(), each.sum().item()]
    return [losses, parameters]


@training
def complex_numbers() -> Any:
    weight = nn.Parameter(torch.randn(3, 3, dtype=torch.complex64))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    losses = []
    for _ in range(3):
        x = torch.randn(3, 3, dtype=torch.complex64)
        optimizer.zero_grad()
        y = (x @ weight).conj() * torch.fft.fft(x)
        loss = (y * y.conj()).real.sum() + torch.view_as_real(weight).square().sum()
        loss = loss - y.imag.neg().sum() + torch.conj(y).imag.sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, weight.detach().clone()]


@training
def sparse_gradients() -> Any:
    net = nn.EmbeddingBag(10, 3, mode="sum", sparse=True)
    optimizer = torch.optim.SparseAdam(list(net.parameters()))
    mask = torch.eye(4).to_sparse()
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        bags = net(torch.randint(10, (4, 2)))
        loss = torch.sparse.mm(mask, bags).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, weights(net)]


@training
def odd_tensors() -> Any:
    results: list[Any] = []
    weight = nn.Parameter(torch.randn(4))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        wide = weight.expand(3, 4)
        eighth = (wide * 2).to(torch.float8_e4m3fn).float()
        half = wide.to(torch.bfloat16) @ torch.ones(4, 2, dtype=torch.bfloat16)
        empty = torch.cat([weight[:0], weight[:0]]).sum()
        quantized = torch.quantize_per_tensor(weight.detach(), 0.1, 10, torch.quint8)
        flags = (weight > 0).sum()
        nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)])
        loss = wide.sum() + half.float().sum() + empty + eighth.sum() * 0
        loss = loss + quantized.dequantize().sum() + flags + (nested * 2).to_padded_tensor(0).sum()
        loss.backward()
        optimizer.step()
        results += [loss.item(), quantized]
    return [results, weight.detach().clone()]


class Named(torch.Tensor):
    """A subclass that only uses ``__torch_function__``."""


class Wrapped(torch.Tensor):
    """A subclass with a dispatch of its own, which wraps a plain tensor."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapped:
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, requires_grad=inner.requires_grad
        )
        made.inner = inner
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return "Wrapped"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def inside(value: Any) -> Any:
            return value.inner if isinstance(value, Wrapped) else value

        result = torch.utils._pytree.tree_map(
            lambda value: Wrapped(value) if isinstance(value, torch.Tensor) else value,
            func(
                *torch.utils._pytree.tree_map(inside, args),
                **torch.utils._pytree.tree_map(inside, kwargs or {}),
            ),
        )
        if func is torch.ops.aten.detach.default or func._schema.name[-1] == "_":
            return torch.utils._python_dispatch.return_and_correct_aliasing(
                func, args, kwargs or {}, result
            )
        return result


@training
def tensor_subclasses() -> Any:
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        x, y = batch()
        optimizer.zero_grad()
        loss = functional.mse_loss(net(x.as_subclass(Named)), y)
        loss.backward()
        optimizer.step()
        both = Wrapped(x) * 2 + Wrapped(x)
        losses += [loss.item(), both.inner.clone()]
    return [losses, weights(net)]


@training
def hooks_of_the_program() -> Any:
    net = mlp()
    seen: list[float] = []
    net[0].register_forward_hook(lambda m, a, out: out * 1.5)
    net[2].register_forward_pre_hook(lambda m, a: (a[0] + 1,))
    net[2].register_full_backward_hook(lambda m, gi, go: seen.append(go[0].sum().item()))
    net[0].weight.register_hook(lambda g: g * 0.5)
    net[2].weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))
    return [seen, fit(net, torch.optim.SGD(net.parameters(), lr=0.1), batch)]


@training
def an_optimizer_step_inside_backward() -> Any:
    net = mlp()
    each = {p: torch.optim.SGD([p], lr=0.1) for p in net.parameters()}

    def update(parameter: torch.Tensor) -> None:
        each[parameter].step()
        each[parameter].zero_grad()

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    losses = []
    for _ in range(3):
        x, y = batch()
        loss = functional.mse_loss(net(x), y)
        loss.backward()
        losses.append(loss.item())
    return [losses, weights(net)]


class Selfish(nn.Module):
    """Steps its own optimizer inside ``forward``."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.optimizer = torch.optim.SGD(self.inner.parameters(), lr=0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            self.optimizer.zero_grad()
            self.inner(x.detach()).square().mean().backward()
            self.optimizer.step()
        return self.inner(x).tanh()


@training
def an_optimizer_step_inside_forward() -> Any:
    net = nn.Sequential(Selfish(), nn.Linear(4, 2))
    return fit(net, torch.optim.SGD(net[1].parameters(), lr=0.1), batch)


@training
def exceptions_caught_by_the_program() -> Any:
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses: list[Any] = []
    for _ in range(3):
        x, y = batch()
        for action in (
            lambda x=x: x @ torch.ones(3, 3),
            lambda x=x: net(x[:, :2]),
            lambda x=x: net[0](x).sum().backward(gradient=torch.ones(2)),
        ):
            try:
                action()
            except RuntimeError as error:
                losses.append(str(error))
        losses.append(fit(net, optimizer, lambda x=x, y=y: (x, y), steps=1))
    return losses


@training
def a_scripted_module() -> Any:
    net = nn.Sequential(torch.jit.script(mlp()), nn.Linear(2, 2))
    return fit(net, torch.optim.SGD(net.parameters(), lr=0.1), batch)


@training
def in_place_and_views() -> Any:
    weight = nn.Parameter(torch.randn(4, 4))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    losses = []
    for _ in range(3):
        x = torch.randn(4, 4)
        optimizer.zero_grad()
        y = x @ weight
        y[0].mul_(2)
        y[:, 1] += 1
        z = y.t().clone().mul_(3)
        z.diagonal().zero_()
        loss = (z.unbind(0)[1] * y.view(-1)[:4]).sum() + weight.data.sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [losses, weight.detach().clone()]


@training
def averaged_and_copied_models() -> Any:
    net = mlp()
    average = torch.optim.swa_utils.AveragedModel(net)
    other = copy.deepcopy(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
    results = []
    for _ in range(3):
        results.append(fit(net, optimizer, batch, steps=1))
        schedule.step()
        average.update_parameters(net)
        other.load_state_dict(net.state_dict())
        results.append(other(batch()[0]).detach())
    return [results, weights(average, other)]
