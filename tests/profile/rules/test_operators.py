"""Ops that are slow with their type or their sizes."""

import pytest
from tests.profile.made import MACHINE, event, graph, line, node, trace

from sonde.profile.analyse.timings import time_steps
from sonde.profile.places import Places
from sonde.profile.record.stopwatch import AS_IT_IS
from sonde.profile.rules import operators
from sonde.profile.rules.evidence import ProfileEvidence


@pytest.mark.document(
    202,
    says="use data types with less computational workload",
    how="finding `float64` of `sonde profile`, measured by a replay; `--try amp` tries low "
    "precision",
)
@pytest.mark.document(
    203,
    says="pay attention to 16-alignment (each dimension in the shape is a multiple of 16)",
    how="finding `unaligned` of `sonde profile`, measured by a replay",
)
@pytest.mark.parametrize(
    ("dtype", "size", "faster", "rule"),
    [("float64", 64, "float32", "float64"), ("float32", 63, "aligned", "unaligned")],
)
def test_a_product_that_is_faster_otherwise_is_a_finding(
    dtype: str, size: int, faster: str, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The times of the replay are made up; that it replays these ways is proved beside it."""
    monkeypatch.setattr(operators, "replay_operator", lambda _: {AS_IT_IS: 4.0e-4, faster: 1.0e-4})
    spec = (dtype, (size, size))
    product = node("mm", "mm", inputs=[("x", *spec)], outputs=[spec], source=line(7))
    made = graph([product])
    step = trace([event("aten::mm", 0, 100_000)], end=101_000, backwards=[(100_500, 101_000)])
    places = Places(lambda file: True)
    [found] = operators.find_slow_products(
        ProfileEvidence(time_steps([step] * 4, made), MACHINE, places, made)
    )
    assert (found.rule, found.source) == (rule, line(7))
    assert found.evidence["gain_seconds"] == pytest.approx(75e-6)
    assert found.evidence["gain_how"] == "replayed"
