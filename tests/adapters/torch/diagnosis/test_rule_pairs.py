"""Every rule names the bug of its pair, and reports nothing of the healthy counterpart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed as dist
from tests.adapters.torch.diagnosis.attention_pairs import ATTENTION
from tests.adapters.torch.diagnosis.bug_fixes import FIXES
from tests.adapters.torch.diagnosis.bug_trainings import BUGS
from tests.adapters.torch.diagnosis.data_pairs import DATA, DATA_SCALE, HEALTHY_SUMS, RANKS
from tests.adapters.torch.diagnosis.form_pairs import FORMS
from tests.adapters.torch.diagnosis.healthy_trainings import HEALTHY_FREEZING, HEALTHY_NORMS
from tests.adapters.torch.diagnosis.loop_pairs import LOOP
from tests.adapters.torch.diagnosis.missed_pairs import MISSED
from tests.adapters.torch.diagnosis.overlooked_pairs import HEALTHY_FORMS, OVERLOOKED
from tests.adapters.torch.diagnosis.pairs import Pair
from tests.adapters.torch.diagnosis.parameter_pairs import PARAMETERS
from tests.adapters.torch.diagnosis.partial_pairs import HEALTHY_PARTS, NO_RATE, PARTIAL
from tests.adapters.torch.diagnosis.precision_pairs import PRECISION
from tests.adapters.torch.diagnosis.scripts import findings_of, run
from tests.adapters.torch.diagnosis.structure_pairs import STRUCTURES
from tests.adapters.torch.diagnosis.style_pairs import HEALTHY_MARGIN, STYLES

from sonde.core.finding import Finding
from sonde.diagnosis.catalogue import rules

# Torch itself warns of some of these bugs, and of processes of loaders.
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
SINGLE = [
    *(Pair(kind, code, *FIXES[name]) for name, (kind, code) in BUGS.items()),
    *(
        *LOOP,
        *PARAMETERS,
        *PRECISION,
        *DATA,
        DATA_SCALE,
        *ATTENTION,
        *STYLES,
        *STRUCTURES,
        *FORMS,
        *MISSED,
        *OVERLOOKED,
        *PARTIAL,
    ),
]


def certain(findings: list[Finding]) -> list[str]:
    return [each.rule for each in findings if each.status != "hypothesis"]


def check_bug(pair: Pair, findings: list[Finding]) -> None:
    if pair.status == "hypothesis":
        assert pair.kind in [each.rule for each in findings], findings
    else:
        assert certain(findings)[:1] == [pair.kind], findings
    found = next(each for each in findings if each.rule == pair.kind)
    assert found.message
    assert found.advice
    assert found.places
    assert found.step is not None


def check_healthy(pair: Pair, findings: list[Finding]) -> None:
    assert certain(findings) == []
    assert pair.kind not in [each.rule for each in findings]


def test_every_rule_has_a_pair() -> None:
    assert {each.kind for each in (*SINGLE, *RANKS)} == set(rules())


@pytest.mark.parametrize("pair", SINGLE, ids=lambda pair: pair.kind)
def test_a_rule_names_its_bug(pair: Pair, tmp_path: Path) -> None:
    check_bug(pair, findings_of(pair.code, tmp_path))


@pytest.mark.parametrize("pair", SINGLE, ids=lambda pair: pair.kind)
def test_a_rule_is_silent_on_the_healthy_counterpart(pair: Pair, tmp_path: Path) -> None:
    check_healthy(pair, findings_of(pair.healthy, tmp_path))


@pytest.mark.parametrize("name", HEALTHY_FORMS)
def test_what_looks_like_an_overlooked_form_is_no_alarm(name: str, tmp_path: Path) -> None:
    assert certain(findings_of(HEALTHY_FORMS[name], tmp_path)) == []


@pytest.mark.parametrize("name", HEALTHY_PARTS)
def test_what_looks_like_a_bug_of_a_part_is_no_alarm(name: str, tmp_path: Path) -> None:
    assert certain(findings_of(HEALTHY_PARTS[name], tmp_path)) == []


def test_an_optimizer_without_a_rate_is_observed_to_the_end(tmp_path: Path) -> None:
    assert certain(findings_of(NO_RATE, tmp_path)) == []
    assert certain(findings_of(NO_RATE.replace("opt.zero_grad(); ", ""), tmp_path)) == [
        "missing-zero-grad"
    ]


@pytest.mark.parametrize("code", [*HEALTHY_FREEZING, *HEALTHY_NORMS])
def test_what_looks_like_a_freeze_or_an_unused_norm_is_no_alarm(code: str, tmp_path: Path) -> None:
    assert certain(findings_of(code, tmp_path)) == []


def test_a_margin_that_is_met_is_no_dead_layer(tmp_path: Path) -> None:
    findings, variables = run(HEALTHY_MARGIN, tmp_path)
    assert float(variables["margin"]) == 0.0  # type: ignore[arg-type]
    assert certain(findings) == []


# ------------------------------------------------------------ ranks


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A group of one process, in which a training runs once for each of two ranks."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_PORT", str(tmp_path))
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def run_ranks(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    for rank in (1, 0):
        monkeypatch.setenv("RANK", str(rank))
        findings = findings_of(code, folder)
    return findings


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("pair", RANKS, ids=lambda pair: pair.kind)
def test_a_rule_about_ranks_names_its_bug_and_is_silent_without_it(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_bug(pair, run_ranks(pair.code, tmp_path, monkeypatch))
    check_healthy(pair, run_ranks(pair.healthy, tmp_path, monkeypatch))


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize("name", HEALTHY_SUMS)
def test_a_sum_of_gradients_that_is_right_is_no_alarm(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert certain(run_ranks(HEALTHY_SUMS[name], tmp_path, monkeypatch)) == []
