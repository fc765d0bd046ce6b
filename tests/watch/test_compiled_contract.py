"""Compiled code gives the same findings in every way."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.watch import ways
from tests.watch.agreement import assert_overflow, assert_right, assert_same
from tests.watch.expected import NET, Fault
from tests.watch.ways import SCENARIOS

pytestmark = pytest.mark.slow

FAULTS: dict[str, Fault] = {
    "01_producer": Fault(2, f"{NET}Entropy/log-op0", 18),
    "03_gradient": Fault(0, f"Gradients/{NET}Norm/div-op0", 17),
    "04_mask_then_producer": Fault(1, f"{NET}Attention/log-op0", 18),
}
"""All others are free of faults."""
NAMES = sorted(path.stem for path in (SCENARIOS / "compiled").glob("*.py"))


def test_every_fault_belongs_to_a_scenario() -> None:
    assert FAULTS.keys() < {*NAMES}


@pytest.mark.parametrize(
    ("backend", "name"),
    # Inductor takes long; one scenario has both a harmless mask and a fault.
    [*(("aot_eager", name) for name in NAMES), ("inductor", "04_mask_then_producer")],
)
def test_every_way_gives_the_same_findings(backend: str, name: str, tmp_path: Path) -> None:
    program = ways.program(SCENARIOS / "compiled" / f"{name}.py", BACKEND=backend)

    def training() -> None:
        torch._dynamo.reset()
        program()

    # What other tests compiled without Sonde cannot be observed.
    torch._dynamo.reset()
    try:
        live, checks, steps = ways.live(training)
        assert_right(live, FAULTS.get(name))
        assert [check.hits for check in checks] == [0] * len(checks)
        dumped = ways.dumped(training, tmp_path / "dump", steps)
        assert_same(live, dumped)
        assert live.undecided == dumped.undecided
        assert any("mask" in each or "full" in each for each in live.undecided) == ("mask" in name)
        overflow = ways.overflowing(training, tmp_path / "overflow")
        assert_overflow(overflow, dumped, FAULTS.get(name))
    finally:
        torch._dynamo.reset()
