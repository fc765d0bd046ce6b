"""Runs of several ranks against one process: healthy ones agree, a fault is named with its rank,
its line and its kind."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from tests.warm_python.starting import warm_python

from sonde.compare.options import CompareError, CompareOptions
from sonde.compare.runs.compare import compare
from sonde.compare.runs.merging.layout_file import read_layout
from sonde.compare.runs.report import document
from sonde.compare.runs.result import RunComparison
from sonde.dump.reader import Dump
from sonde.workers.run import WorkerOptions

PROGRAMS = Path(__file__).with_name("programs")


def dumped(
    place: Path, ranks: int, script: str, *arguments: str, options: tuple[str, ...] = ()
) -> Dump:
    """Run a script on so many ranks and dump its first two steps."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [warm_python(), "-m", "sonde", "run", "--dump-to", str(place), "--dump-steps", "0-1"]
    words += [*options, str(PROGRAMS / script), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}
    environment |= {"MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
    started = [
        subprocess.Popen(
            words,
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    ended = [process.communicate(timeout=800)[0] for process in started]
    assert all(process.returncode == 0 for process in started), ended
    return Dump(place)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Dump:
    return dumped(tmp_path_factory.mktemp("single") / "d", 1, "single.py")


@pytest.fixture(scope="module")
def regression(tmp_path_factory: pytest.TempPathFactory) -> Dump:
    return dumped(tmp_path_factory.mktemp("regression") / "d", 1, "single_regression.py")


def line_of(script: str, text: str) -> int:
    lines = (PROGRAMS / script).read_text().splitlines()
    return 1 + next(number for number, line in enumerate(lines) if text in line)


def assert_aligned(found: RunComparison) -> None:
    assert found.verdict == "aligned", found.first_divergence
    assert not [pair for pair in found.pairs if pair.status in ("incomparable", "inherited")]
    compared = {pair.phase for pair in found.pairs if pair.tensors}
    assert compared == {"forward", "backward", "optimizer"}
    assert {pair.step for pair in found.pairs if pair.tensors} == {0, 1}


@pytest.fixture(scope="module")
def attention(tmp_path_factory: pytest.TempPathFactory) -> Dump:
    return dumped(tmp_path_factory.mktemp("attention") / "d", 1, "attention.py")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "fsdp2"])
def test_attention_with_positions_first_agrees(kind: str, attention: Dump, tmp_path: Path) -> None:
    assert_aligned(compare(dumped(tmp_path / "d", 2, "attention.py", kind), attention))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "manual"])
def test_healthy_data_parallelism_agrees(kind: str, reference: Dump, tmp_path: Path) -> None:
    found = compare(dumped(tmp_path / "d", 2, "data_parallel.py", kind), reference)
    assert_aligned(found)
    assert any("the mean over the 2 ranks" in note for note in found.notes)
    assert any("put in the order" in note for note in found.notes)  # DistributedSampler


@pytest.mark.slow
def test_the_reference_may_be_the_side_of_several_ranks(reference: Dump, tmp_path: Path) -> None:
    assert_aligned(compare(reference, dumped(tmp_path / "d", 2, "data_parallel.py", "ddp")))


@pytest.mark.parametrize("count", [2, 4])
def test_micro_batches_are_joined(count: int, reference: Dump, tmp_path: Path) -> None:
    found = compare(dumped(tmp_path / "d", 1, "single.py", str(count)), reference)
    assert_aligned(found)
    assert any(f"the sum over the {count} micro-batches" in note for note in found.notes)


def test_a_layout_file_overrides_what_is_inferred(reference: Dump, tmp_path: Path) -> None:
    dump = dumped(tmp_path / "d", 2, "data_parallel.py", "ddp")
    file = tmp_path / "layout.yaml"
    file.write_text("mesh: {dp: 2}\ntensors: [{name: '*gelu-op0', placement: {dp: shard 1}}]\n")
    found = compare(dump, reference, CompareOptions(layout_a=read_layout(file, ranks=2)))
    first = found.first_divergence
    assert first is not None
    assert first.pair.type_a == "gelu"
    assert "concatenated in dim 1" in str(first.tensor.layout)
    assert any(note.endswith(" file") for note in found.notes)


FAULTS = {
    "sum": ((), "dist.all_reduce(p.grad)", "2 times that of b: summed over the ranks"),
    "clip": ((1,), "nn.utils.clip_grad_norm_", "rank 1 does not run"),
    "lost": ((0, 1), "loss.backward()", "it is not exchanged between the ranks"),
    "raw": ((0, 1), "loss.backward()", "it is not exchanged between the ranks"),
    "eps": ((1,), "out = called(x)", "its inputs agree"),
    "branch": ((1,), "out = out * 1.01", "rank 1 runs mul-op0, which the others do not run"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_with_rank_line_and_kind(
    fault: str, reference: Dump, tmp_path: Path
) -> None:
    ranks, code, text = FAULTS[fault]
    several = dumped(tmp_path / "d", 2, "data_parallel.py", fault)
    for found in (compare(several, reference), compare(reference, several)):
        assert found.verdict == "diverged"
        first = found.first_divergence
        assert first is not None
        assert first.pair.step == 0
        assert first.pair.ranks == ranks
        is_a = found.a.path == str(several.path)
        assert (text if is_a else text.replace("that of b", "that of a")) in first.cause
        source = first.pair.source_a if is_a else first.pair.source_b
        assert source is not None
        assert source.line == line_of("data_parallel.py", code)


def test_a_lost_exchange_names_its_parameter(reference: Dump, tmp_path: Path) -> None:
    found = compare(dumped(tmp_path / "d", 2, "data_parallel.py", "lost"), reference)
    assert found.first_divergence is not None
    assert "/3-Linear/" in found.first_divergence.pair.a  # 3.bias is left out


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "ranks"), [("fsdp", 2), ("tp", 2), ("both", 4)])
def test_healthy_shards_agree(kind: str, ranks: int, regression: Dump, tmp_path: Path) -> None:
    found = compare(dumped(tmp_path / "d", ranks, "sharded.py", kind), regression)
    assert_aligned(found)
    assert any("recorded" in note for note in found.notes)


@pytest.mark.slow
def test_one_rank_of_fsdp_that_computes_something_else_is_named(
    regression: Dump, tmp_path: Path
) -> None:
    found = compare(dumped(tmp_path / "d", 2, "sharded.py", "fsdp", "scale"), regression)
    assert found.verdict == "diverged"
    first = found.first_divergence
    assert first is not None
    source = first.pair.source_a
    assert source is not None
    assert source.line in {
        line_of("sharded.py", "output = output * 1.01"),
        line_of("sharded.py", "nn.functional.mse_loss(output, y)"),
    }


@pytest.mark.slow
def test_processes_find_the_same(reference: Dump, tmp_path: Path) -> None:
    dump = dumped(tmp_path / "d", 2, "data_parallel.py", "clip")
    alone = compare(dump, reference, CompareOptions(workers=WorkerOptions(1)))
    shared = compare(dump, reference, CompareOptions(workers=WorkerOptions(2)))
    assert document(shared) == document(alone)


def test_a_perturbed_reference_widens_the_tolerance(reference: Dump, tmp_path: Path) -> None:
    other = dumped(tmp_path / "p", 1, "single.py", options=("--perturb-weights",))
    changed = compare(other, reference, CompareOptions(steps=None))
    assert changed.verdict == "diverged"  # Its weights differ from the start.
    weights = [pair for pair in changed.pairs if pair.kind == "parameter" and pair.step == 0]
    assert all(pair.error < 1e-6 for pair in weights)
    assert sum(pair.error > 0 for pair in weights) >= 4  # Zeros stay zeros.
    found = compare(
        dumped(tmp_path / "d", 1, "single.py", "2"),
        reference,
        CompareOptions(perturbed=tmp_path / "p"),
    )
    plain = compare(Dump(tmp_path / "d"), reference)
    assert found.verdict == plain.verdict == "aligned"
    before = {(pair.step, pair.a, pair.how): pair.allowed for pair in plain.pairs}
    wider = [pair for pair in found.pairs if pair.allowed > before[pair.step, pair.a, pair.how]]
    assert wider
    assert any("up to 8 times the error of b" in note for note in found.notes)
    assert not any("up to 8 times the error of b" in note for note in plain.notes)
    assert not any(pair.is_leaf for pair in wider)
    assert all(pair.allowed < 1e-3 for pair in wider)


def test_statistics_of_other_layouts_are_refused(reference: Dump, tmp_path: Path) -> None:
    dump = dumped(tmp_path / "d", 1, "single.py", "2", options=("--stats",))
    with pytest.raises(CompareError, match="has statistics only"):
        compare(dump, reference)
