"""Programs in the style of public ones, bare and under Sonde, in every mode.

Each program of this folder is a small copy of how a library or an example trains. Proven for each:
it computes the same bits and ends with the same exit code in every mode; standard error has only
the lines that are due; a healthy program is not accused and leaves no tensors on the disk; ops have
the names of the program's own variables and attributes; steps of one structure share a graph, and
an evaluation is no part of a step; a 0/0 in a later step is reported with its step and line.
``expected.py`` has what differs between the programs.
"""

from __future__ import annotations

import re

import pytest
from tests.programs.expected import EXPECTED, THREAD
from tests.programs.running import HERE, MODES, Programs

OVERFLOW_LINES = {
    "finite": "sonde: every value of the observed steps was finite",
    "harmless": "sonde: no op made NaN or Inf by mistake",
    "unknown": "sonde: nothing is known about NaN and Inf in the whole run",
}
OVERFLOWS = ("operator_overflow", "tensor_overflow", "weight_overflow", "gradient_exploding")


def slugs(stderr: str) -> set[str]:
    return set(re.findall(r"\[([a-z-]+)\]$", stderr, re.MULTILINE))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", EXPECTED)
def test_a_program_computes_the_same_bits(name: str, mode: str, programs: Programs) -> None:
    bare, seen = programs(name, "bare"), programs(name, mode)
    assert set(bare.codes) == {0}, bare.stderr
    assert all("weights " in each for each in bare.stdout)
    assert (seen.codes, seen.stdout) == (bare.codes, bare.stdout), seen.stderr


@pytest.mark.parametrize("mode", ["stats", "overflow", "debugger"])
@pytest.mark.parametrize("name", EXPECTED)
def test_only_the_lines_that_are_due_are_printed(name: str, mode: str, programs: Programs) -> None:
    expected = EXPECTED[name]
    for bare, stderr in zip(
        programs(name, "bare").stderr, programs(name, mode).stderr, strict=True
    ):
        lines = [line for line in stderr.splitlines() if line not in bare.splitlines()]
        assert all(line.startswith("sonde: ") for line in lines), stderr
        last = lines.pop() if mode != "debugger" else ""
        if mode == "stats":
            assert ": dumped step" in last
        if mode == "overflow":
            verdict = OVERFLOW_LINES[expected.verdict].removeprefix("sonde: ")
            assert verdict in last
        assert slugs("\n".join(lines)) == set(expected.slugs)
        assert len(lines) == len(expected.slugs)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_healthy_program_is_not_accused(name: str, programs: Programs) -> None:
    ended = programs(name, "overflow")
    for rank in range(len(ended.codes)):
        assert ended.verdict(rank)["verdict"] == EXPECTED[name].verdict
        assert ended.verdict(rank)["observed"]["steps"] == EXPECTED[name].steps
    assert not list(ended.path.rglob("*.npy"))
    for rank in programs(name, "debugger").debugged:
        assert len(rank.steps) == EXPECTED[name].steps
        # Hits that are undecided are those that were withdrawn when their step ended.
        found = [hit for hit in rank.hits if hit.condition in OVERFLOWS]
        assert {hit.status for hit in found} <= {"hypothesis"}


@pytest.mark.parametrize("name", EXPECTED)
def test_ops_have_the_names_of_the_program(name: str, programs: Programs) -> None:
    expected, dump = EXPECTED[name], programs(name, "stats").dump
    assert all(problem.is_gap for problem in dump.check())
    assert bool(dump.check()) == (THREAD in expected.slugs)
    for rank in dump.ranks:
        ops = [op for graph in dump.graphs(rank=rank) for op in graph.ops]
        for start in expected.names:
            found = [op for op in ops if op.name.startswith(start)]
            phase = "optimizer" if "/optimizer-" in start else "forward"
            assert {op.phase for op in found} == {phase}, start
        numbered = [op.name for op in ops if re.search(r"-[A-Z]\w*_\d+/", op.name)]
        allowed = ("silu-SiLU_1",)
        assert [each for each in numbered if not any(word in each for word in allowed)] == []


@pytest.mark.parametrize("name", [name for name in EXPECTED if EXPECTED[name].graphs])
def test_steps_of_one_structure_share_a_graph(name: str, programs: Programs) -> None:
    dump = programs(name, "stats").dump
    assert len(dump.graph_ids()) == EXPECTED[name].graphs
    assert dump.steps() == tuple(range(EXPECTED[name].steps or 1))
    if EXPECTED[name].steps:
        assert dump.steps(graph_id=1) == tuple(range(1, EXPECTED[name].steps))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_division_of_zero_by_zero_is_found(name: str, programs: Programs) -> None:
    step, scope = EXPECTED[name].fault
    bare = programs(name, "bare", fault_step=step)
    seen = programs(name, "overflow", fault_step=step)
    assert (seen.codes, seen.stdout) == (bare.codes, bare.stdout)
    lines = (HERE / f"{name}.py").read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith("# FAULT")]
    for rank in range(len(seen.codes)):
        told = seen.verdict(rank)
        assert told["verdict"] == "fault"
        source = told["origin"]["source"]
        assert (source["file"], source["line"]) == (str(HERE / f"{name}.py"), number)
        assert told["origin"]["step"] == (step if EXPECTED[name].steps else 0)
        assert re.fullmatch(rf"{scope}/div-op\d+", told["origin"]["op"])
        assert f"{name}.py:{number} `" in seen.stderr[rank]


def test_weights_that_nothing_initialised_are_named_not_the_collective(programs: Programs) -> None:
    bare = programs("fsdp2_uninitialised", "bare")
    seen = programs("fsdp2_uninitialised", "overflow")
    assert (seen.codes, seen.stdout) == (bare.codes, bare.stdout)
    assert all("loss nan" in each for each in bare.stdout)
    lines = (HERE / "fsdp2_uninitialised.py").read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith("# FIRST USE")]
    for rank in range(2):
        told = seen.verdict(rank)
        assert told["verdict"] == "fault"
        assert (told["origin"]["kind"], told["origin"]["step"]) == ("leaf", 0)
        assert told["origin"]["op"] == "1.weight.local"
        assert told["origin"]["source"]["line"] == number
