"""A language model in five layouts against one process: healthy ones agree, each fault is found at
its line, with its ranks and its kind; and two layouts of several ranks against each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.compare.runs.merging.test_layouts import assert_aligned, dumped, line_of

from sonde.compare.runs.compare import compare
from sonde.dump.reader import Dump

PROGRAM = "language_model.py"
RANKS = {"one": 1, "ddp": 2, "tp": 2, "fsdp": 2, "hsdp": 4, "grid": 4}

Layouts = Callable[..., Dump]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def layouts(tmp_path_factory: pytest.TempPathFactory) -> Layouts:
    """Runs the program in a layout, once, and gives its dump."""
    known: dict[tuple[str, ...], Dump] = {}

    def run(*words: str, ranks: int | None = None, micro_batches: int = 1) -> Dump:
        key = (*words, str(ranks), str(micro_batches))
        if key not in known:
            place = tmp_path_factory.mktemp("layout") / "d"
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("MICRO_BATCHES", str(micro_batches))
                known[key] = dumped(place, ranks or RANKS[words[0]], PROGRAM, *words)
        return known[key]

    return run


@pytest.mark.parametrize("layout", ["ddp", "tp", "fsdp", "hsdp", "grid"])
def test_healthy_layouts_agree_with_one_process(layout: str, layouts: Layouts) -> None:
    assert_aligned(compare(layouts(layout), layouts("one")))


def test_accumulation_over_ranks_and_micro_batches_agrees(layouts: Layouts) -> None:
    assert_aligned(compare(layouts("ddp", micro_batches=2), layouts("one")))


def test_two_ranks_of_ddp_agree_with_four_of_fsdp(layouts: Layouts) -> None:
    assert_aligned(compare(layouts("ddp"), layouts("fsdp", ranks=4)))


def test_two_ranks_of_tensor_parallelism_agree_with_two_of_ddp(layouts: Layouts) -> None:
    assert_aligned(compare(layouts("tp"), layouts("ddp")))


SHARED = "shared = self.shared_k(y)"
STEP = "optimizer.step()"
FAULTS = [
    # The layout, the fault, micro-batches, ranks, line, op or parameter, and what is said.
    ("tp", "shared", 1, (), SHARED, "1-Block/shared_k-Linear/", "its inputs agree"),
    (
        "tp",
        "shards",
        1,
        (1,),
        "self.up(x)",
        "0-Block/up-Linear/",
        "its shards are the same on all ranks",
    ),
    (
        "fsdp",
        "factor",
        1,
        (0, 1),
        STEP,
        "embedding.weight.grad",
        "is 0.5 times that of b: divided by",
    ),
    ("hsdp", "lost", 1, (0, 1, 2, 3), STEP, "embedding.weight.grad", "is not exchanged"),
    ("ddp", "last", 2, (), "loss.backward()", "copy_-op0", "not the one that was computed"),
    ("ddp", "tokens", 1, (), "loss = total / (y != -100)", "Default/div-op0", "its inputs agree"),
]


@pytest.mark.parametrize(
    ("layout", "fault", "micro_batches", "ranks", "code", "name", "text"),
    FAULTS,
    ids=[f"{each[0]}-{each[1]}" for each in FAULTS],
)
def test_a_planted_fault_is_named(
    layout: str,
    fault: str,
    micro_batches: int,
    ranks: tuple[int, ...],
    code: str,
    name: str,
    text: str,
    layouts: Layouts,
) -> None:
    dump = layouts(layout, fault, micro_batches=micro_batches)
    found = compare(dump, layouts("one"))
    first = found.first_divergence
    assert first is not None
    assert first.pair.step == 0
    assert first.pair.source_a is not None
    assert first.pair.source_a.line == line_of(PROGRAM, code)
    assert name in first.pair.a
    assert text in first.cause
    assert first.pair.ranks == ranks


def test_a_sum_that_should_be_a_mean_is_no_placement(tmp_path: Path) -> None:
    whole = dumped(tmp_path / "one", 1, "logged_loss.py")
    assert_aligned(compare(dumped(tmp_path / "mean", 2, "logged_loss.py"), whole))
    found = compare(dumped(tmp_path / "sum", 2, "logged_loss.py", "sum"), whole)
    first = found.first_divergence
    assert first is not None
    assert first.cause.endswith("2 times that of b: summed over the ranks, not averaged")
    assert first.pair.source_a is not None
    assert first.pair.source_a.line == line_of("logged_loss.py", "dist.all_reduce(shown)")
