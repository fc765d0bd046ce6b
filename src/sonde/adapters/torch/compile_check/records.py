"""Records one call of a compiled graph, so that it can be run again in other ways."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn

GraphCompiler = Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]
"""What a backend of torch.compile is: it makes a function of a graph and example inputs."""

_PLACE = re.compile(r"_(?:modules|parameters|buffers)\['([^']+)'\]")


@dataclass(frozen=True, slots=True)
class Ambient:
    """The context of the call: autocast, by kind of device."""

    autocasts: tuple[tuple[str, torch.dtype, bool], ...]

    @classmethod
    def now(cls, devices: set[str]) -> Ambient:
        return cls(
            tuple(
                (kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind))
                for kind in sorted(devices | {"cpu"})
                if kind != "meta"
            )
        )

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Restore the context in this block, with gradients enabled."""
        with ExitStack() as stack:
            for kind, dtype, enabled in self.autocasts:
                stack.enter_context(torch.autocast(kind, dtype, enabled))
            stack.enter_context(torch.enable_grad())
            yield


@dataclass
class GraphCall:
    """One call of a graph: its inputs before it ran, and the gradients its outputs were given.

    Parameters are held, not copied: nothing changes them before the optimizer's step.
    """

    name: str
    backend: str
    graph: fx.GraphModule
    compile: GraphCompiler
    inputs: list[Any]
    ambient: Ambient
    random_state: torch.Tensor
    tangents: dict[int, torch.Tensor] = field(default_factory=dict)

    @property
    def input_names(self) -> list[str]:
        """Readable names of the inputs: ``fc1.weight``, else what the graph calls them."""
        return [_readable(node) for node in self.graph.graph.nodes if node.op == "placeholder"]

    def watch(self, outputs: Any) -> None:
        """Note the gradients that reach ``outputs`` in the program's own backward."""
        for number, output in enumerate(outputs if isinstance(outputs, (list, tuple)) else ()):
            if isinstance(output, torch.Tensor) and output.requires_grad:
                self._watch_one(number, output)

    def _watch_one(self, number: int, output: torch.Tensor) -> None:
        def note(gradient: torch.Tensor) -> None:
            if number not in self.tangents:
                self.tangents[number] = gradient.detach().clone()

        output.register_hook(note)  # type: ignore[no-untyped-call]

    def fresh_inputs(
        self, change: Callable[[torch.Tensor], torch.Tensor] | None = None
    ) -> list[Any]:
        """The inputs as leaves of their own; what the graph may write to is copied.

        ``change`` makes another tensor of each floating one.
        """
        return [
            _leaf(value, change) if isinstance(value, torch.Tensor) else value
            for value in self.inputs
        ]


class Eager(fx.Interpreter):
    """Runs a graph of dynamo as eager code.

    Parts marked for recomputation in backward are not recomputed: in the graph, unlike in the
    program, they would draw other random numbers then.
    """

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if getattr(target, "__name__", "") == "tag_activation_checkpoint":
            return args[0](*args[1:])
        return super().call_function(target, args, kwargs)


def eager_function(graph: fx.GraphModule) -> Callable[..., Any]:
    """A function that runs ``graph`` eagerly."""
    if any(
        getattr(node.target, "__name__", "") == "tag_activation_checkpoint"
        for node in graph.graph.nodes
    ):
        return Eager(graph).run
    function: Callable[..., Any] = graph.forward
    return function


def kept(value: Any) -> Any:
    """A copy of ``value``; parameters are not copied (see `GraphCall`)."""
    if not isinstance(value, torch.Tensor) or isinstance(value, nn.Parameter):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def _leaf(
    value: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor] | None
) -> torch.Tensor:
    plain = value.detach()
    if change is not None and plain.is_floating_point():
        plain = change(plain)
    elif not isinstance(value, nn.Parameter):
        plain = plain.clone()
    return plain.requires_grad_(value.requires_grad)


def _readable(node: fx.Node) -> str:
    source = getattr(node, "_dynamo_source", None) or getattr(
        node.meta.get("grapharg"), "source", None
    )
    name = getattr(source, "name", "")
    text = name() if callable(name) else str(name)
    places = _PLACE.findall(text)
    if places:
        return ".".join(places)
    local = re.fullmatch(r"L\['([^']+)'\](.*)", text)
    if local is not None:
        return local[1] + local[2].replace("['", ".").replace("']", "")
    return node.name
