"""Trainings with tensors and gradients of many kinds."""

from __future__ import annotations

from typing import Any

import torch
from tests.adapters.torch.fitting import Trainings, batch, mlp, weights
from torch import nn
from torch.nn import functional

TRAININGS = Trainings()


@TRAININGS.add
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


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x * x * gradient


@TRAININGS.add
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


@TRAININGS.add
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


@TRAININGS.add
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


@TRAININGS.add
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


@TRAININGS.add
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


@TRAININGS.add
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


@TRAININGS.add
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


@TRAININGS.add
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
