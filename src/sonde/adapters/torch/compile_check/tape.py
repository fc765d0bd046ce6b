"""Runs torch code with recorded random numbers, and, for the reference, in float64.

The first run records what its random ops drew, in order; later runs get the same numbers. A
dropout's mask is the same whichever op draws it: ``bernoulli_`` in eager code, ``native_dropout``
or a comparison with uniform numbers in a compiler's graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.compile_check.private import pytree
from sonde.adapters.torch.private import OpOverload

_MASKS = frozenset({"bernoulli", "bernoulli_", "native_dropout"})
_UNIFORMS = frozenset({"rand", "rand_like", "uniform", "uniform_"})
_OTHERS = frozenset(
    {
        *("randn", "randn_like", "normal", "normal_", "normal_functional"),
        *("randint", "randint_like", "randperm", "random", "random_", "multinomial"),
        *("exponential", "exponential_", "geometric", "geometric_", "cauchy", "cauchy_"),
        *("log_normal", "log_normal_", "poisson", "binomial", "_standard_gamma"),
    }
)
_ALMOST_ONE = 1 - 2**-24

RandomKind = Literal["mask", "uniform", "other"]


def random_kind(func: Any) -> RandomKind | None:
    """What an op draws; None if it draws nothing."""
    if getattr(func, "namespace", "") != "aten":
        return None
    name = func._schema.name.removeprefix("aten::")
    if name in _MASKS:
        return "mask"
    if name in _UNIFORMS:
        return "uniform"
    return "other" if name in _OTHERS else None


@dataclass
class Tape:
    """The numbers that random ops drew. ``is_matched`` is False once a later run draws others."""

    drawn: list[tuple[RandomKind, torch.Tensor]] = field(default_factory=list)
    is_matched: bool = True
    is_written: bool = False


class Playing(private.TorchDispatchMode):  # type: ignore[misc]
    """A mode under which code draws the numbers of the tape; the first run records them.

    With ``wide`` everything floating is computed in float64, casts included.
    """

    supports_higher_order_operators = True

    def __init__(self, tape: Tape, *, wide: bool) -> None:
        super().__init__()
        self._tape = tape
        self._wide = wide
        self._positions: dict[bytes, int] = {}

    def __exit__(self, *details: Any) -> Any:
        if not self._tape.is_written:
            self._tape.is_written = True
        elif details[0] is None and len(self._positions) != len(self._tape.drawn):
            self._tape.is_matched = False
        return super().__exit__(*details)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "namespace", "") == "sonde":
            return None  # The program printed in its own run already.
        if not isinstance(func, OpOverload):
            return self._higher_order(func, args, kwargs)
        if self._wide:
            args, kwargs = widened(func, args, kwargs)
        kind = random_kind(func)
        state = None if kind is None else _generator_state(args, kwargs)
        result = func(*args, **kwargs)
        if kind is not None and state is not None:
            result = self._draw(kind, state, args, result)
        return pytree.tree_map_only(torch.Tensor, wide, result) if self._wide else result

    def _higher_order(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run an op that wraps another: one with effects, or a random one to be drawn again."""
        name = getattr(func, "__name__", "")
        if name == "with_effects" and getattr(args[1], "namespace", "") == "sonde":
            return args[0], None
        if name == "run_and_save_rng_state":
            return torch.get_rng_state(), self.__torch_dispatch__(args[0], (), args[1:], kwargs)
        if name == "run_with_rng_state":
            now = torch.get_rng_state()
            torch.set_rng_state(args[0].cpu())
            try:
                return self.__torch_dispatch__(args[1], (), args[2:], kwargs)
            finally:
                torch.set_rng_state(now)
        return func(*args, **kwargs)

    def _draw(self, kind: RandomKind, state: bytes, args: Sequence[Any], result: Any) -> Any:
        """Record or replace what was drawn.

        A generator in a state it had before draws the same again, as the parts of a network do
        that are recomputed in backward.
        """
        drawn = result[1] if isinstance(result, tuple) else result
        is_again = state in self._positions
        position = self._positions.setdefault(state, len(self._positions))
        if not self._tape.is_written:
            if not is_again:
                value = drawn != 0 if kind == "mask" else drawn
                self._tape.drawn.append((kind, value.detach().clone()))
            return result
        if position >= len(self._tape.drawn):
            self._tape.is_matched = False
            return result
        was, value = self._tape.drawn[position]
        if value.shape != drawn.shape or (was != kind and (was, kind) != ("mask", "uniform")):
            self._tape.is_matched = False
            return result
        if was == "mask" and kind == "uniform":
            value = value.to(torch.float64) * _ALMOST_ONE
        drawn.copy_(value)
        if isinstance(result, tuple):
            return dropped(args[0], drawn, float(args[1])), drawn
        return result


def _generator_state(args: Sequence[Any], kwargs: dict[str, Any]) -> bytes:
    """The state of the generator that an op with these arguments draws from."""
    devices = [each.device for each in args if isinstance(each, torch.Tensor)]
    device = torch.device(kwargs.get("device") or "cpu") if not devices else devices[0]
    if device.type == "cuda":
        return bytes(torch.cuda.get_rng_state(device).numpy())
    return bytes(torch.get_rng_state().numpy())


def dropped(values: torch.Tensor, mask: torch.Tensor, probability: float) -> torch.Tensor:
    """The result of a dropout of ``values`` with this mask."""
    return values * mask * (0.0 if probability >= 1 else 1 / (1 - probability))


def widened(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """The arguments with which ``func`` computes in float64 what it computed before."""
    wide_args, wide_kwargs = pytree.tree_map(wide_argument, (tuple(args), dict(kwargs)))
    name = getattr(getattr(func, "_schema", None), "name", "")
    if name in ("aten::_softmax", "aten::_log_softmax") and len(wide_args) == 3:
        wide_args = (*wide_args[:2], False)  # "half to float" needs a half.
    return wide_args, wide_kwargs


def wide_argument(value: Any) -> Any:
    """``value`` in float64, or, for a floating dtype, float64 itself; else unchanged."""
    if isinstance(value, torch.Tensor):
        return wide(value)
    if isinstance(value, torch.dtype) and value.is_floating_point:
        return torch.float64
    return value


def wide(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_floating_point() and tensor.dtype is not torch.float64:
        return tensor.to(torch.float64)
    return tensor


def is_floating(value: Any) -> TypeGuard[torch.Tensor]:
    """Whether ``value`` is a tensor of floating-point numbers."""
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def detached(values: Sequence[Any]) -> list[Any]:
    """``values``, each tensor without its autograd history."""
    return [value.detach() if isinstance(value, torch.Tensor) else value for value in values]


def jittered(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """``tensor`` in float64, each element moved by up to its dtype's spacing, up or down."""
    wide = tensor.detach().to(torch.float64)
    change = torch.rand(tensor.shape, dtype=torch.float64, generator=generator)
    change = change.mul_(2).sub_(1).mul_(torch.finfo(tensor.dtype).eps)
    return wide + wide * change.to(tensor.device)
