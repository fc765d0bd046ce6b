"""``sonde profile`` as a user types it: options, mistakes, exit codes, two profiles compared."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.cli.documents.printed import of_error, validated
from tests.profile.made import profile as made_profile
from tests.warm_python.starting import warm_python

from sonde.cli.main import main
from sonde.cli.profile import ProfileCommand, profile
from sonde.profile.document import load_profile, save_profile

TRAINING = """\
import sys, torch
torch.set_num_threads(1)
torch.manual_seed(0)
net = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
x = torch.randn(4, 8)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
print("loss", loss.item(), flush=True)
if len(sys.argv) > 2:
    raise ValueError("mine") if sys.argv[2] == "raise" else SystemExit(int(sys.argv[2]))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAINING)
    return path


def run(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [warm_python(), "-m", "sonde", "profile", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200"},
    )


def test_a_script_is_profiled_and_runs_to_its_end(script: Path, tmp_path: Path) -> None:
    alone = subprocess.run([warm_python(), script, "9"], capture_output=True, text=True, check=True)
    words = ("--steps", "2:6", "--fail-if", "step_time > 100s")
    done = run(*words, script, "9", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(alone.stdout)
    assert "a step takes" in done.stdout
    assert "sonde: steps 2 to 5 are profiled" in done.stderr
    found = load_profile(tmp_path / "sonde_profile")
    assert found.program == (str(script), "9")
    assert [step.kind for step in found.steps] == [
        *("bare", "bare", "named", "timed", "timed", "timed", "bare", "bare", "bare")
    ]
    trace = json.loads((tmp_path / "sonde_profile" / "trace.json").read_text())
    assert any(event["name"] == "aten::addmm" for event in trace["traceEvents"])


def test_stop_ends_the_program_after_its_window(script: Path, tmp_path: Path) -> None:
    done = run("--steps", "2:5", "--stop", "--to", "out", script, "1000000", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not done.stdout.startswith("loss")
    assert load_profile(tmp_path / "out").summary.steps == 5


def test_the_exit_code_is_the_programs(script: Path, tmp_path: Path) -> None:
    done = run("--steps", "2:5", script, "7", "5", cwd=tmp_path)
    assert done.returncode == 5
    assert (tmp_path / "sonde_profile" / "report.html").exists()


def test_a_program_that_raises_shows_its_own_traceback_and_is_reported(
    script: Path, tmp_path: Path
) -> None:
    done = run("--steps", "2:5", script, "7", "raise", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("ValueError: mine")
    assert "sonde/" not in done.stderr.partition("Traceback")[2]
    assert "a step takes" in done.stdout


def test_fail_if_ends_with_3(script: Path, tmp_path: Path) -> None:
    save_profile(made_profile(1e-9), tmp_path / "baseline.json")
    condition = "step_time > 1.2 * baseline.json"
    done = run("--steps", "2:5", "--fail-if", condition, script, "7", cwd=tmp_path)
    assert done.returncode == 3
    assert f"--fail-if holds: {condition} (it is " in done.stderr


def test_too_few_steps_are_a_mistake(script: Path, tmp_path: Path) -> None:
    done = run(script, "4", cwd=tmp_path)
    assert done.returncode == 2
    assert "the program made 4 steps; try --steps 1:4 [profile-no-steps]" in done.stderr


def test_a_failing_program_with_too_few_steps_keeps_its_exit_code(
    script: Path, tmp_path: Path
) -> None:
    done = run(script, "4", "7", cwd=tmp_path)
    assert done.returncode == 7
    assert "[profile-no-steps]" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["profile"], "no program given"),
        (["profile", "--steps", "x", "train.py"], "is not a range such as 5:15"),
        (["profile", "--fail-if", "1 > 2", "train.py"], "names no quantity"),
        (["profile", "--fail-if", "step_time > gone.json", "train.py"], "no profile can be read"),
        (["profile", "--try", "speed", "train.py"], "there is no variant 'speed'"),
        (["profile", "--rounds", "0", "train.py"], "0 is not in the range"),
        (
            ["profile", "--to", "/proc/no/where", "--try", "amp", "train.py"],
            "cannot be created",
        ),
        (["profile", "--to", "/proc/nothing/here", "train.py"], "cannot be created"),
        (["profile", "diff", "one"], "takes two profiles"),
        (["profile", "diff", "one", "two"], "no profile can be read"),
        (["profile", "--wrong"], "no such option"),
    ],
)
def test_mistakes_are_reported_in_a_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_ranks_are_not_started_twice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["profile", "--ranks", "2", "train.py"]) == 2
    assert "run without torchrun" in capsys.readouterr().err


def test_two_profiles_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_profile(made_profile(0.2), tmp_path / "before.json")
    (tmp_path / "after").mkdir()
    save_profile(made_profile(0.1), tmp_path / "after" / "profile.json")
    assert main(["profile", "diff", f"{tmp_path}/before.json", f"{tmp_path}/after"]) == 0
    text = capsys.readouterr().out
    assert "0.50 x" in text
    assert "200 ms" in text


@pytest.mark.parametrize("words", [["--json", "diff"], ["diff", "--json"]])
def test_json_is_an_option_before_and_after_diff(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_profile(made_profile(0.2), tmp_path / "a.json")
    assert main(["profile", *words, f"{tmp_path}/a.json", f"{tmp_path}/a.json"]) == 0
    validated("profile", capsys.readouterr().out)
    assert main(["profile", *words, f"{tmp_path}/none.json", f"{tmp_path}/a.json"]) == 2
    assert of_error(capsys.readouterr().out)["slug"] == "profile-file"


def test_json_of_a_module_with_the_argument_diff_is_the_modules() -> None:
    assert isinstance(profile, ProfileCommand)
    words = ["-m", "module", "diff", "--json"]
    assert profile.split(words) == (words[:2], words[2:])


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "--help"]) == 0
    text = capsys.readouterr().out
    for option in ("--steps", "--to", "--stop", "--memory", "--try", "--rounds", "--ranks"):
        assert option in text
    assert "--as-trial" not in text
