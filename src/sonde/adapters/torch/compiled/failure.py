"""Finds the op of a compiled graph that raised, by running the graph once more, op by op.

A compiled kernel may compute many ops, so that its exception does not name one. The graph's only
side effects are the copies at its end, which are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from sonde.adapters.torch.compiled.graph import NUMBER, AotGraph, tensor_arguments


@dataclass(frozen=True, slots=True)
class Failure:
    """Op ``number`` raised on ``inputs``."""

    number: int
    inputs: list[torch.Tensor]


def find_failure(
    module: fx.GraphModule, described: AotGraph, args: Sequence[Any]
) -> Failure | None:
    """The op that raises when the graph is run on ``args`` op by op; None if none does."""
    search = _Search(module, described)
    try:
        search.run(*args)
    except Exception:
        return search.failure
    return None


class _Search(fx.Interpreter):
    def __init__(self, module: fx.GraphModule, described: AotGraph) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self._described = described
        self.failure: Failure | None = None

    def run_node(self, n: fx.Node) -> Any:
        number = n.meta.get(NUMBER)
        if number is None:
            return super().run_node(n)
        if self._described.ops[number].written is not None:
            return self.env[tensor_arguments(n)[0]]
        try:
            return super().run_node(n)
        except Exception:
            inputs = [self.env[argument] for argument in tensor_arguments(n)]
            self.failure = Failure(number, inputs)
            raise
