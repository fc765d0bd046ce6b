"""Programs with one planted bottleneck each: the best finding names it with its line.

The planted line is marked in the program; nothing here depends on how long anything takes.
"""

import os
import subprocess
from pathlib import Path

import pytest
from tests.warm_python.starting import warm_python

from sonde.profile.document import FoundItem, Profile, load_profile

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs"

PLANTED = {
    "slow_dataset": "data-wait",
    "one_worker": "too-few-workers",
    "item_every_layer": "synchronisation",
    "needless_casts": "needless-cast",
    "layout_flips": "layout-flip",
    "many_parameters": "unfused-optimizer",
    "tiny_batches": "small-batch",
    "recompiles": "recompilation",
}


def sonde_profile(program: str, out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache_home())}
    return subprocess.run(
        [
            *(warm_python(), "-m", "sonde", "profile", "--to", str(out), *options),
            str(PROGRAMS / f"{program}.py"),
        ],
        capture_output=True,
        text=True,
        timeout=800,
        env=environment,
    )


def cache_home() -> Path:
    """One for all tests, so that the machine is measured once."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))


def planted_line(program: str) -> int:
    lines = (PROGRAMS / f"{program}.py").read_text().splitlines()
    return next(number for number, text in enumerate(lines, 1) if text.endswith("# PLANTED"))


LOADED_MACHINE = {"python-time", "data-wait"}
"""Findings that other programs on the machine cause: they interrupt Python, also as it loads."""


def own_findings(profile: Profile, planted: str = "") -> list[FoundItem]:
    """The findings that the program itself causes, best first."""
    others = LOADED_MACHINE - {planted}
    return [each for each in profile.findings if each.rule not in others]


def check_best(profile: Profile, program: str, rule: str) -> None:
    best = own_findings(profile, rule)[0]
    assert best.rule == rule, [(each.rule, each.gain) for each in profile.findings]
    assert best.place is not None
    assert (Path(best.place.file).name, best.place.line) == (f"{program}.py", planted_line(program))
    assert best.gain.share >= 0.05
    assert best.gain.how in ("in the trace", "replayed")


@pytest.mark.parametrize("program", PLANTED)
def test_the_best_finding_is_the_planted_one(program: str, tmp_path: Path) -> None:
    done = sonde_profile(program, tmp_path, "--steps", "3:11")
    assert done.returncode == 0, done.stderr
    profile = load_profile(tmp_path)
    check_best(profile, program, PLANTED[program])
    for number, finding in enumerate(profile.findings, 1):
        assert f"{number}. {finding.rule}" in done.stdout


def test_a_blocking_all_reduce_between_two_ranks_is_found(tmp_path: Path) -> None:
    done = sonde_profile("blocking_all_reduce", tmp_path, "--steps", "3:10", "--ranks", "2")
    assert done.returncode == 0, done.stderr
    profile = load_profile(tmp_path / "rank_0")
    check_best(profile, "blocking_all_reduce", "exposed-collectives")
    assert own_findings(profile)[0].gain.how == "replayed"
    assert profile.ranks == 2
    assert profile.collectives is not None
    assert profile.collectives.calls == 16
    assert profile.collectives.nbytes == 8 * 4 * (256 * 256 + 256)
    assert own_findings(load_profile(tmp_path / "rank_1")) == []


def test_a_healthy_program_has_no_finding_and_prints_what_it_prints_alone(tmp_path: Path) -> None:
    alone = subprocess.run(
        [warm_python(), str(PROGRAMS / "healthy.py")], capture_output=True, text=True, check=True
    )
    done = sonde_profile("healthy", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(alone.stdout)
    assert "loss " in alone.stdout
    profile = load_profile(tmp_path)
    assert own_findings(profile) == []
    assert [step.number for step in profile.steps if step.kind == "timed"] == list(range(6, 15))
    assert {file.name for file in tmp_path.iterdir()} == {
        "profile.json",
        "report.html",
        "trace.json",
    }


def test_variants_are_tried_on_the_program_itself(tmp_path: Path) -> None:
    done = sonde_profile(
        "many_parameters",
        tmp_path,
        *("--steps", "2:6", "--rounds", "2", "--try", "fused,workers,channels_last"),
    )
    assert done.returncode == 0, done.stderr
    profile = load_profile(tmp_path)
    tried = {each.name: each for each in profile.tried}
    fused = tried.pop("fused")
    assert {each.verdict for each in tried.values()} == {"not applicable"}
    assert set(tried) == {"workers", "channels_last"}
    # How fast it is depends on what else runs; test_verdicts.py has the verdicts of given times.
    assert len(fused.ratios) == 2
    assert fused.verdict in ("faster", "no gain", "slower")
    assert fused.loss_difference is not None
    assert fused.loss_difference < 1e-4
    assert fused.place is not None
    assert fused.place.line == planted_line("many_parameters")
    gains = {each.gain.how for each in profile.findings if each.rule == "unfused-optimizer"}
    assert gains == ({"tried"} if fused.verdict == "faster" else set())
    assert "tried" in done.stdout
