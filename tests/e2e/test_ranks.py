"""Several processes: each rank its own directory, names as without wrappers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.e2e.running import PROGRAMS, bare, observed, run

from sonde.core.graph import OpNode
from sonde.dump.reader import Dump


def own_ops(nodes: tuple[OpNode, ...]) -> list[str]:
    """Ops that the program's own network runs, leaving out what a wrapper adds."""
    return [
        node.name
        for node in nodes
        if "network-Net/" in node.name and node.type not in ("detach", "_c10d")
    ]


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    path = tmp_path_factory.mktemp("ranks")
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0"]
    launch = [*launch, "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    program = str(PROGRAMS / "ranks.py")
    alone = launched(*launch, program)
    seen = launched(*launch, "-m", "sonde", "run", "--dump-to", str(path), program)
    return path, alone, seen


def launched(*words: str) -> str:
    """What the ranks print. Bare, too, gloo's threads abort now and then when a process ends."""
    for _ in range(4):
        ended = run(*words)
        if ended.returncode == 0:
            return ended.stdout
        assert "terminate called without an active exception" in ended.stderr, ended.stderr
    raise AssertionError(ended.stderr)


def test_two_ranks_train_to_the_same_bits(two_ranks: tuple[Path, str, str]) -> None:
    _, alone, seen = two_ranks
    said = [sorted(filter(None, text.split("rank "))) for text in (alone, seen)]
    assert [line.strip() for line in said[0]] == [line.strip() for line in said[1]]
    assert len([line for line in said[0] if line.strip()]) == 8


def test_each_rank_dumps_to_its_own_directory(two_ranks: tuple[Path, str, str]) -> None:
    dump = Dump(two_ranks[0])
    assert dump.ranks == (0, 1)
    assert dump.check() == ()
    for rank in (0, 1):
        assert dump.steps(rank=rank) == (0, 1, 2)
    gradients = [
        next(
            record.numpy()
            for record in dump.tensors(step=0, rank=rank, io="output")
            if record.op_type == "c10d_allreduce_"
        )
        for rank in (0, 1)
    ]
    assert (gradients[0] == gradients[1]).all()
    before = [
        next(
            record.numpy()
            for record in dump.tensors(step=0, rank=rank, io="input")
            if record.op_type == "c10d_allreduce_"
        )
        for rank in (0, 1)
    ]
    assert (before[0] != before[1]).any()
    assert torch.allclose(
        torch.from_numpy(before[0] + before[1]), torch.from_numpy(gradients[0] * 1.0), rtol=1e-5
    )


def test_a_wrapped_network_has_the_names_of_the_bare_one(
    two_ranks: tuple[Path, str, str], tmp_path: Path
) -> None:
    single = observed(["--dump-to", str(tmp_path)], "ranks.py")
    assert single.returncode == 0, single.stderr
    alone, both = Dump(tmp_path), Dump(two_ranks[0])
    expected = own_ops(alone.graph(0).ops)
    assert expected
    forward = [name for name in expected if name.startswith("Default/")]
    for rank in (0, 1):
        found = own_ops(both.graph(0, rank=rank).ops)
        assert [name for name in found if name.startswith("Default/")] == forward
        assert set(expected) <= set(found)
    first, second = (own_ops(both.graph(0, rank=rank).ops) for rank in (0, 1))
    assert first == second


def test_two_runs_give_the_same_graphs(tmp_path: Path) -> None:
    graphs = []
    for number in range(2):
        path = tmp_path / str(number)
        ended = observed(["--dump-to", str(path)], "ranks.py", PYTHONHASHSEED=str(number))
        assert ended.returncode == 0, ended.stderr
        graphs.append(Dump(path).graphs())
    assert [graph.nodes for graph in graphs[0]] == [graph.nodes for graph in graphs[1]]


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_started_by_torch_are_observed_as_ranks(method: str, tmp_path: Path) -> None:
    for name in ("alone", "seen", "dump"):
        (tmp_path / name).mkdir()
    alone = bare("spawned.py", method, str(tmp_path / "alone"))
    assert alone.returncode == 0, alone.stderr
    seen = observed(
        ["--dump-to", str(tmp_path / "dump")], "spawned.py", method, str(tmp_path / "seen")
    )
    assert seen.returncode == 0, seen.stderr
    ours = sorted(line for line in seen.stderr.splitlines() if "sonde:" in line)
    assert [line.partition(": dumped steps 0-1: ")[0] for line in ours] == [
        "sonde: rank 0",
        "sonde: rank 1",
    ]
    for number in range(2):
        one, other = (torch.load(tmp_path / name / f"{number}.pt") for name in ("alone", "seen"))
        assert all(torch.equal(one[key], other[key]) for key in one)
    dump = Dump(tmp_path / "dump")
    assert dump.ranks == (0, 1)
    assert dump.check() == ()
    assert all(dump.steps(rank=rank) == (0, 1) for rank in (0, 1))


def test_workers_of_loaders_are_not_observed(tmp_path: Path) -> None:
    alone = bare("loaders.py")
    assert alone.returncode == 0, alone.stderr
    seen = observed(["--dump-to", str(tmp_path)], "loaders.py")
    assert seen.returncode == 0, seen.stderr
    assert seen.stdout == alone.stdout
    assert len(alone.stdout.splitlines()) == 6
    ours = seen.stderr.removeprefix(alone.stderr)
    assert ours.startswith("sonde: dumped steps 0-5: ")
    assert ours.count("\n") == 1
    dump = Dump(tmp_path)
    assert dump.ranks == (0,)
    assert dump.steps() == tuple(range(6))
    assert dump.check() == ()


def test_a_rank_that_is_not_selected_dumps_nothing(tmp_path: Path) -> None:
    config = tmp_path / "dump.json"
    config.write_text(
        '{"common_dump_settings": {"dump_mode": 0, "path": "%s", "net_name": "Net",'
        ' "iteration": "0", "input_output": 0, "kernels": [], "support_device": [1]},'
        ' "e2e_dump_settings": {"enable": true, "trans_flag": true}}' % (tmp_path / "out")
    )
    ended = observed(["--dump", str(config)], "ranks.py")
    assert ended.returncode == 0, ended.stderr
    assert not list(tmp_path.glob("out/rank_0/*"))


def test_a_network_sharded_on_the_meta_device_trains_to_the_same_bits(tmp_path: Path) -> None:
    """FSDP2 gives such a network its memory by swapping its parameters."""
    ways = ("bare", "tensors", "stats", "overflow")
    root = str(Path(__file__).parents[2])
    ended = run(str(PROGRAMS / "sharded.py"), str(tmp_path), *ways, PYTHONPATH=root)
    assert ended.returncode == 0, ended.stderr
    assert "failed" not in ended.stderr
    lines = sorted(line.partition(" ")[::2] for line in ended.stdout.splitlines())
    found = {way: [text for each, text in lines if each == way] for way in ways}
    assert len(found["bare"]) == 2 * (3 + 4)
    assert [found[way] == found["bare"] for way in ways] == [True] * 4
