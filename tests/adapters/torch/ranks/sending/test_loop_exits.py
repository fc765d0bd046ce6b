"""The loop around the last step is named, with the lines that leave it."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from sonde.adapters.torch.ranks.sending.loop_exits import LastStep
from sonde.ranks.report import LoopReport

BREAKS = """
for x in range(3):
    step()
    if x == 1:
        break
"""
CALLED = """
def train(data):
    for x in data:
        one(x)
        for y in range(2):
            if y:
                break
        if x == 9:
            return

def one(x):
    for unrelated in range(2):
        if unrelated:
            break
    step()

for epoch in range(2):
    train(range(3))
    if epoch > 5:
        import sys; sys.exit()
"""
WHILE = """
number = 0
while number < 3:
    number += 1
    step()
else:
    step_after = number
"""
NO_LOOP = """
step()
for x in range(2):
    break
"""
INNER_FUNCTION = """
for x in range(2):
    def act():
        return step()
    act()
    try:
        if x == 9:
            break
    finally:
        pass
"""


def ran(tmp_path: Path, text: str) -> LoopReport | None:
    """What is known after the program has run, whose ``step`` is a step."""
    (tmp_path / "t.py").write_text(text)
    last = LastStep()

    def step() -> None:
        frame: FrameType = sys._getframe(1)
        last.take(frame)

    given: dict[str, Any] = {"step": step}
    runpy.run_path(str(tmp_path / "t.py"), init_globals=given)
    return last.report(1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BREAKS, LoopReport(1, "t.py:3", "t.py:2", ("t.py:5",))),
        (CALLED, LoopReport(1, "t.py:15", "t.py:3", ("t.py:9", "t.py:20"))),
        (WHILE, LoopReport(1, "t.py:5", "t.py:3", ())),
        (NO_LOOP, None),
        (INNER_FUNCTION, LoopReport(1, "t.py:4", "t.py:2", ("t.py:8",))),
    ],
)
def test_loop_around_the_last_step_is_named(
    tmp_path: Path, text: str, expected: LoopReport | None
) -> None:
    assert ran(tmp_path, text) == expected


def test_program_without_source_has_no_loop() -> None:
    last = LastStep()
    code = compile("for x in range(2):\n    take(frame())", "/nowhere/t.py", "exec")
    exec(code, {"take": last.take, "frame": lambda: sys._getframe(1)})
    found = last.report(0)
    assert found is None or not found.loop.startswith("t.py")
