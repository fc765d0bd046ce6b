"""Small trainings that break in a known place, run under ``sonde run --overflow``."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.running import environment, run
from tests.warm_python.starting import warm_python

SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True)
class Broken:
    """Where a script goes wrong: in which step, by which op (or leaf), in which phase."""

    step: int
    op: str
    phase: str = "forward"
    verb: str = "were made in step {} by"


CAME = "entered in step {} with"
BROKEN = {
    "log_of_a_negative_number": Broken(2, "Default/network-Gated/log-op0"),
    "log_of_zero": Broken(0, "Default/log-op0"),
    "division_by_zero": Broken(1, "Default/div-op0"),
    "square_root_at_zero": Broken(1, "Gradients/Default/div-op1", "backward"),
    "own_backward": Broken(1, "Gradients/Default/div-op0", "backward"),
    "huge_learning_rate": Broken(0, "Default/optimizer-SGD/add_-op0", "optimizer"),
    "adam_without_epsilon": Broken(0, "Default/optimizer-Adam/addcdiv_-op0", "optimizer"),
    "exponential": Broken(2, "Default/network-Sequential/1-Softmax/exp-op0"),
    "half_precision": Broken(1, "Default/network-Net/mul-op0"),
    "masked_softmax_row": Broken(1, "Default/network-Attention/masked_fill-op0"),
    "in_place_on_a_view": Broken(1, "Default/log_-op0"),
    "state_over_steps": Broken(2, "Default/div-op0"),
    "nan_in_the_batch": Broken(1, "x", verb=CAME),
    "nan_in_a_weight": Broken(0, "2.bias", verb=CAME),
}


@dataclass(frozen=True)
class Ended:
    code: int
    stdout: str
    stderr: str
    dump: Path

    def overflow(self) -> dict[int, list[dict[str, Any]]]:
        found = {}
        for file in self.dump.rglob("[0-9]*/overflow.json"):
            found[int(file.parent.name)] = json.loads(file.read_text(), parse_constant=refuse)
        return dict(sorted(found.items()))


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


class Commands:
    """``sonde`` commands in processes of their own, forked from one that has imported torch."""

    def __init__(self, parent: subprocess.Popen[str], directory: Path) -> None:
        self._parent = parent
        self._directory = directory
        self._ended: dict[str, Ended] = {}

    def __call__(self, name: str, *words: str) -> Ended:
        directory = self._directory / name
        directory.mkdir(parents=True, exist_ok=True)
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        print(json.dumps([str(directory), *words]), file=self._parent.stdin, flush=True)
        code = int(self._parent.stdout.readline())
        return Ended(
            code,
            (directory / "stdout").read_text(),
            (directory / "stderr").read_text(),
            directory / "sonde_dump",
        )

    def overflow(self, name: str) -> Ended:
        """``sonde run --overflow`` of a script, run once."""
        if name not in self._ended:
            self._ended[name] = self(name, "run", "--overflow", str(SCRIPTS / f"{name}.py"))
        return self._ended[name]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    with subprocess.Popen(
        [warm_python(), str(SCRIPTS / "forked.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as parent:
        yield Commands(parent, tmp_path_factory.mktemp("scripts"))
        assert parent.stdin is not None
        parent.stdin.close()


def marked_line(name: str) -> tuple[int, str]:
    """The line of a script that brings the first non-finite value about."""
    lines = (SCRIPTS / f"{name}.py").read_text().splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if line.endswith("# FIRST")]
    return found, lines[found - 1].strip()


@pytest.mark.document(
    107,
    says="Overflow Dump: dump overflow operators (Ascend O0/O1 only)",
    how="`sonde run --overflow train.py`, on the CPU too; the last lines name the first op with "
    "NaN or Inf and its line",
)
@pytest.mark.parametrize("name", BROKEN)
def test_the_first_producer_is_named_at_the_end_with_its_line(
    name: str, commands: Commands
) -> None:
    ended = commands.overflow(name)
    broken = BROKEN[name]
    number, code = marked_line(name)
    assert ended.code == 0
    assert ended.stdout == ""
    (first,) = re.findall(r"^sonde: the first non-finite values .*$", ended.stderr, re.MULTILINE)
    assert f" {broken.verb.format(broken.step)} {broken.op}" in first
    assert first.endswith(f" at {SCRIPTS / name}.py:{number}: {code}")


@pytest.mark.document(
    98,
    says="if the `scale=1` case still has a loss value of INF, NAN: an overflow of operators in "
    "the network",
    how="`sonde run --overflow train.py` names the first op, its line and its inputs",
)
@pytest.mark.parametrize("name", BROKEN)
def test_the_first_producer_is_listed_first_in_its_step(name: str, commands: Commands) -> None:
    steps = commands.overflow(name).overflow()
    broken = BROKEN[name]
    if name != "masked_softmax_row":  # there the mask is made before it becomes a fault
        assert min(steps) == broken.step
    first = steps[broken.step][0]
    number, code = marked_line(name)
    assert (first["op"], first["role"], first["phase"], first["from"]) == (
        broken.op,
        "producer",
        broken.phase,
        None,
    )
    assert first["source"]["file"] == str(SCRIPTS / f"{name}.py")
    assert (first["source"]["line"], first["source"]["code"]) == (number, code)
    assert all(bad(tensor) == 0 for tensor in first["inputs"])
    assert sum(bad(tensor) for tensor in first["outputs"]) > 0


def bad(tensor: dict[str, Any]) -> int:
    counts = ("nan_count", "positive_inf_count", "negative_inf_count")
    return sum(tensor[count] for count in counts)


@pytest.mark.parametrize("name", BROKEN)
def test_every_carrier_names_a_producer_that_ran_before_it(name: str, commands: Commands) -> None:
    steps = commands.overflow(name).overflow()
    producers: set[tuple[int, str]] = set()
    carriers = 0
    for step, entries in steps.items():
        for entry in entries:
            if entry["role"] == "producer":
                assert "from_step" not in entry
                producers.add((step, entry["op"]))
                continue
            carriers += 1
            assert (entry.get("from_step", step), entry["from"]) in producers
            assert entry.get("from_step", 0) != step or step == 0
    assert carriers > 0


@pytest.mark.parametrize("name", ["log_of_a_negative_number", "nan_in_the_batch", "own_backward"])
def test_all_that_follows_comes_from_the_one_producer(name: str, commands: Commands) -> None:
    steps = commands.overflow(name).overflow()
    broken = BROKEN[name]
    for step, entries in steps.items():
        for entry in entries[step == broken.step :]:
            assert entry["role"] == "carrier"
            assert entry["from"] == broken.op
            assert entry.get("from_step", step) == broken.step


@pytest.mark.parametrize("name", BROKEN)
def test_sonde_show_names_the_producer_too(name: str, commands: Commands) -> None:
    ended = commands.overflow(name)
    shown = commands(f"{name}/shown", "show", str(ended.dump))
    broken = BROKEN[name]
    number, _ = marked_line(name)
    assert shown.code == 0
    step = shown.stdout.index(f"NaN or Inf in step {broken.step}, rank 0")
    made = shown.stdout.index(f"made by {broken.op}, {broken.phase}", step)
    assert f"{SCRIPTS / name}.py:{number}" in shown.stdout[made:].splitlines()[1]


def test_a_healthy_net_with_infinite_masks_has_no_fault(commands: Commands) -> None:
    ended = commands.overflow("causal_masks")
    assert ended.code == 0
    assert "first non-finite values" not in ended.stderr
    assert "by mistake" in ended.stderr
    assert "masked_fill-op0 (value=-inf) at" in ended.stderr
    told = json.loads((ended.dump / "rank_0" / "overflow.json").read_text())
    assert told["verdict"] == "harmless"
    assert told["origin"]["by_argument"] == "value=-inf"
    assert told["observed"]["is_complete"]
    # Harmless values leave nothing on the disk.
    assert ended.overflow() == {}
    assert not list(ended.dump.rglob("*.npy"))


def test_the_command_itself_names_the_first_producer(tmp_path: Path) -> None:
    script = SCRIPTS / "exponential.py"
    ended = run("-m", "sonde", "run", "--overflow", "--dump-to", str(tmp_path / "d"), str(script))
    number, code = marked_line("exponential")
    assert ended.returncode == 0
    assert ended.stdout == ""
    written, _, verdict = ended.stderr.partition("\n")
    assert written.startswith("sonde: dumped step")
    assert verdict == (
        "sonde: the first non-finite values were made in step 2 by "
        f"Default/network-Sequential/1-Softmax/exp-op0 at {script}:{number}: {code}\n"
        "sonde: ops with such values: 1 made them, 17 passed them on; "
        f"sonde show {tmp_path / 'd'} tells more\n"
    )
