"""Ops stay known when Python specialises the instructions that call them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.adapters.torch.watching import watch
from torch import nn

from sonde.adapters.torch.eager.naming.source_lines import is_same_call
from sonde.adapters.torch.eager.op_learning import Learner

# Python specialises a function when it has run a few times: this one has not.
_LOOP = """
def step(torch, net, optimizer):
    loss = net(torch.ones(2, 4)).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return float(loss.detach())
"""


@pytest.mark.parametrize("matcher", ["native", "python"])
def test_ops_are_learned_in_the_first_two_steps_only(
    matcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SONDE_MATCHER", matcher)
    calls = []
    learn = Learner.learn
    monkeypatch.setattr(
        Learner, "learn", lambda self, *given: calls.append(given[1]) or learn(self, *given)
    )
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    names: dict[str, Any] = {}
    exec(compile(_LOOP, "<loop>", "exec"), names)
    learned: list[int] = []
    with watch():
        for _ in range(14):
            names["step"](torch, net, optimizer)
            learned.append(len(calls))
    assert learned[0] > 5
    # Reading the loss belongs to the step that follows, so the second step is another one.
    assert learned[1] > learned[0]
    assert learned[2:] == [learned[2]] * (len(learned) - 2)


def test_neighbouring_ops_are_different_calls() -> None:
    code = compile("a + b * c", "<sum>", "eval")
    offsets = range(0, len(code.co_code), 2)
    assert all(
        is_same_call(code, first, second) == (first == second)
        for first in offsets
        for second in offsets
    )


def test_an_offset_outside_of_the_code_is_only_the_same_as_itself() -> None:
    code = compile("f(x)", "<call>", "eval")
    assert is_same_call(code, -1, -1)
    assert not is_same_call(code, -1, len(code.co_code) + 2)
