"""One case for every condition: a watchpoint that hits, a near miss, and the hits by hand.

All cases watch the same training of four steps. Its data are chosen so that every value is exact:

==== ================== ================== ==================
step ``weight``         its gradient       output of ``relu``
==== ================== ================== ==================
0    1, -2, 0, 3        0, 0, 0, 0.5       0, 0, 0, 1
1    1, -2, 0, 2.5      8, 0, 0, 0         1, 2, 0, 4
2    -7, -2, 0, 2.5     NaN, 1, 1, 1       2, 2, 2, 2
3    NaN, -3, -1, 1.5   1, 1, 1, 1         NaN, 1, 2, 3
==== ================== ================== ==================

``large`` and its gradient have the largest finite numbers; ``div`` computes 0/0 in step 3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan
from typing import Final

import torch
from torch import nn

from sonde.watch.conditions import CATALOGUE

NETWORK: Final = "Default/network-Net"
RELU: Final = f"{NETWORK}/relu-op0"
DIVISION: Final = f"{NETWORK}/div-op0"
LARGEST: Final = 3.4e38
Place = tuple[int, str]
"""A step and an op or leaf."""

KEPT: Final = (RELU, DIVISION, f"{NETWORK}/neg-op0", *(f"{NETWORK}/add-op{n}" for n in range(3)))
"""The ops whose values are kept, so that a check during a pause can read them."""
IN_DUMP: Final = {
    "large.grad": f"Gradients/{NETWORK}/detach-op0",
    "weight.grad": f"Gradients/{NETWORK}/detach-op1",
}
"""A gradient has the name of its weight in the debugger, and that of its op in a dump."""


class Net(nn.Module):
    """The gradient of ``weight`` is ``g``, that of ``large`` is ``k``."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, -2.0, 0.0, 3.0]))
        self.large = nn.Parameter(torch.tensor([0.5, 0.5]))

    def forward(
        self, g: torch.Tensor, k: torch.Tensor, x: torch.Tensor, a: torch.Tensor
    ) -> torch.Tensor:
        torch.neg(k)
        loss = (self.weight * g).sum() + (self.large * k).sum()
        return loss + torch.relu(x).sum() + (a / a).sum()


DATA: Final[tuple[tuple[list[float], ...], ...]] = (
    ([0.0, 0.0, 0.0, 0.5], [LARGEST, 0.0], [-1.0, -2.0, -3.0, 1.0], [1.0]),
    ([8.0, 0.0, 0.0, 0.0], [0.0, 0.0], [1.0, 2.0, -3.0, 4.0], [1.0]),
    ([nan, 1.0, 1.0, 1.0], [0.0, 0.0], [2.0, 2.0, 2.0, 2.0], [1.0]),
    ([1.0, 1.0, 1.0, 1.0], [0.0, 0.0], [nan, 1.0, 2.0, 3.0], [0.0]),
)


def train() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    for data in DATA:
        optimizer.zero_grad()
        net(*(torch.tensor(each) for each in data)).backward()
        optimizer.step()


@dataclass(frozen=True)
class Case:
    """``hit`` and ``miss`` are parameters or an expression; ``miss_on`` is what the near miss
    watches, if not the same. Both watchpoints are undecided at ``undecided``."""

    on: tuple[str, ...]
    hits: set[Place]
    hit: dict[str, float] | str = field(default_factory=dict)
    miss: dict[str, float] | str = field(default_factory=dict)
    miss_on: tuple[str, ...] = ()
    undecided: frozenset[Place] = frozenset()


NAN_WEIGHT: Final = frozenset({(3, "weight")})
NAN_GRADIENT: Final = frozenset({(2, "weight.grad")})
NAN_OUTPUT: Final = frozenset({(3, RELU)})


def weights(
    hits: set[int], hit: dict[str, float], miss: dict[str, float], *, nan: bool = True
) -> Case:
    undecided = NAN_WEIGHT if nan else frozenset()
    return Case(("weight",), {(each, "weight") for each in hits}, hit, miss, (), undecided)


def gradients(hits: set[int], hit: dict[str, float], miss: dict[str, float]) -> Case:
    places = {(each, "weight.grad") for each in hits}
    return Case(("weight.grad",), places, hit, miss, (), NAN_GRADIENT)


def outputs(hits: set[int], hit: dict[str, float] | str, miss: dict[str, float] | str) -> Case:
    return Case((RELU,), {(each, RELU) for each in hits}, hit, miss, (), NAN_OUTPUT)


CASES: dict[str, Case] = {
    "tensor_overflow": Case(("div",), {(3, DIVISION)}, miss_on=("neg",)),
    "operator_overflow": Case(("div",), {(3, DIVISION)}, miss_on=("add", "relu", "weight")),
    "weight_overflow": Case(("weight",), {(3, "weight")}, miss_on=("large",)),
    "gradient_exploding": Case(("weight.grad",), {(2, "weight.grad")}, miss_on=("large.grad",)),
    "tensor_too_large": outputs({1}, {"max_gt": 3.9}, {"max_gt": 4.0}),
    "weight_too_large": weights({0, 2}, {"abs_mean_gt": 1.4}, {"abs_mean_gt": 2.875}),
    "gradient_too_large": gradients({1}, {"abs_mean_gt": 1.9}, {"abs_mean_gt": 2.0}),
    "tensor_too_small": outputs({0}, {"abs_mean_lt": 0.3}, {"abs_mean_lt": 0.25}),
    "weight_too_small": weights({1, 2}, {"max_lt": 3.0}, {"max_lt": 2.5}),
    "gradient_vanishing": gradients({0}, {"abs_mean_lt": 0.13}, {"abs_mean_lt": 0.125}),
    "tensor_all_zero": outputs({0}, {"zero_percentage_ge": 75.0}, {"zero_percentage_ge": 75.1}),
    # The mean of relu's output in step 1 is 7/4, and the sum of squares about it is 35/4.
    "tensor_deviation": outputs({1}, {"sd_gt": 1.70}, {"sd_gt": 1.71}),
    "weight_initialization": weights(
        {0}, {"zero_percentage_ge": 25.0}, {"zero_percentage_ge": 25.1}, nan=False
    ),
    "weight_not_changed": weights({1}, {"rtol": 0.0, "atol": 0.5}, {"rtol": 0.0, "atol": 0.49}),
    # |w1 - w0| has the mean 0.125, |w0| 1.5; |w2 - w1| has 2, |w1| 1.375.
    "weight_change_too_large": weights(
        {2}, {"abs_mean_update_ratio_gt": 1.45}, {"abs_mean_update_ratio_gt": 1.46}
    ),
    "weight_change_too_small": weights(
        {1}, {"abs_mean_update_ratio_lt": 0.084}, {"abs_mean_update_ratio_lt": 0.083}
    ),
    "activation_range": outputs(
        {2},
        {"range_start_inclusive": 0.0, "range_end_inclusive": 1.0, "range_percentage_lt": 1.0},
        {"range_start_inclusive": 0.0, "range_end_inclusive": 1.0, "range_percentage_lt": 0.0},
    ),
    "tensor_range": outputs({1}, {"max_min_gt": 3.9}, {"max_min_gt": 4.0}),
    "expression": outputs({1}, "l2norm > 4 or nan_count > 4", "l2norm > 5 or nan_count > 4"),
    "expression with a previous value": Case(
        (RELU,),
        {(1, RELU)},
        "abs_max > 3.9 * prev.abs_max",
        "abs_max > 4 * prev.abs_max",
        (),
        frozenset({(0, RELU), (3, RELU)}),
    ),
}
ONLY_AS_STEPS_RUN: Final = {
    "weight_not_changed",
    "weight_change_too_large",
    "weight_change_too_small",
    "expression with a previous value",
}
"""docs/debugger.md: conditions that a check during a pause does not evaluate."""
CHANGES: Final = {"weight_not_changed", "weight_change_too_large", "weight_change_too_small"}
"""docs/view.md: conditions that are undecided in the first step of a dump; the debugger evaluates
them at the end of that step for the first time."""
CONDITIONS: Final = (*CATALOGUE, "expression")


def condition_of(name: str) -> str:
    return name.partition(" ")[0]
