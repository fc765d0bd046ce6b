"""A compiled network in DDP: dump, overflow and prints of every rank."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.running import PROGRAMS, run

from sonde.dump.reader import Dump

PROGRAM = PROGRAMS / "compiled_ranks.py"
LAUNCH = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d")


def launched(*words: str) -> tuple[list[str], str]:
    """The lines that the ranks print, sorted, and what is said on stderr."""
    for _ in range(4):
        # With the compiler's own processes, as outside of tests.
        more = {"TORCHINDUCTOR_COMPILE_THREADS": "2"}
        ended = run(*LAUNCH, "--rdzv-endpoint", "localhost:0", *words, **more)
        if ended.returncode == 0:
            return sorted(ended.stdout.splitlines()), ended.stderr
        # Bare, too, gloo's threads abort now and then when a process ends.
        assert "terminate called without an active exception" in ended.stderr, ended.stderr
    raise AssertionError(ended.stderr)


@pytest.mark.parametrize(
    ("way", "backend"),
    [
        ("outside", "aot_eager"),
        ("inside", "aot_eager"),
        pytest.param("outside", "inductor", marks=pytest.mark.slow),
        pytest.param("inside", "inductor", marks=pytest.mark.slow),
    ],
)
def test_ranks_of_compiled_code_are_dumped_watched_and_print(
    tmp_path: Path, way: str, backend: str
) -> None:
    printed, said = launched(
        *("-m", "sonde", "run", "--overflow", "--dump-to", str(tmp_path)),
        *(str(PROGRAM), way, backend),
    )
    for rank in (0, 1):
        assert printed.count(f"[rank {rank}] root") == 3
        assert sum(line.startswith(f"rank {rank}: ") for line in printed) == 3
    line = next(
        number
        for number, text in enumerate(PROGRAM.read_text().splitlines(), 1)
        if text.endswith("# the NaN")
    )
    assert f"in step 1, forward, at {PROGRAM.name}:{line} `root =" in said
    assert "(network-Net/sqrt-op0): " in said
    assert said.count("ops in 2 compiled graphs observed") == 2
    dump = Dump(tmp_path)
    assert dump.ranks == (0, 1)
    assert dump.check() == ()
    _, entries = next(iter(dump.overflow(1, rank=1)))
    makers = [entry.op for entry in entries if entry.role == "producer"]
    assert makers[0] == "Default/network-Net/sqrt-op0"
