"""The options of ``sonde run --guard``, and its end line."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.cli.test_run import prepared
from tests.warm_python.starting import warm_python

import sonde
from sonde.cli.main import main
from sonde.core.errors import UsageError


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_options_are_those_of_the_guard(tmp_path: Path) -> None:
    words = ["--guard", "--guard-to", "kept", "--keep", "5", "--on-trigger", "skip"]
    words += ["--trigger", "loss > 3", "--trigger", "grad_norm > 9", "--snapshot-every", "20"]
    words += ["--repeat-every", "7"]
    guard = prepared(*words, "train.py", "--keep").guard
    assert guard is not None
    assert guard.directory == tmp_path / "kept"
    assert (guard.keep, guard.on_trigger, guard.snapshot_every) == (5, "skip", 20)
    assert guard.repeat_every == 7
    assert [each.text for each in guard.triggers] == ["loss > 3", "grad_norm > 9"]


def test_the_guard_writes_to_sonde_steps(tmp_path: Path) -> None:
    guard = prepared("--guard", "train.py").guard
    assert guard is not None
    assert guard.directory == tmp_path / "sonde_steps"
    assert prepared("--stats", "train.py").guard is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--keep 3 train.py", "--keep needs --guard"),
        ("--trigger loss>3 train.py", "--trigger needs --guard"),
        ("--guard --trigger los>3 train.py", "did you mean 'loss'?"),
        ("--guard --stats train.py", "--guard cannot be combined with a dump"),
        ("--guard --overflow train.py", "sonde replay DIR --dump-to OUT"),
        ("--guard --guard-to file/inside train.py", "file is not a directory"),
        ("--guard --guard-to file train.py", "file is not a directory"),
        ("--guard --guard-to /proc/nothing train.py", "no directory can be made in /proc: "),
    ],
)
def test_what_cannot_be_is_one_clear_error(tmp_path: Path, words: str, said: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError) as caught:
        prepared(*words.split())
    assert said in str(caught.value)
    assert os.listdir(tmp_path) == ["file"]


def test_a_directory_that_cannot_be_made_ends_the_command_before_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit('it was started')")
    assert main(["run", "--guard", "--guard-to", "/proc/nothing", "train.py"]) == 2
    said = capsys.readouterr().err
    assert said.rstrip().endswith("[guard-directory]")
    assert said.count("\n") == 1


def _run(directory: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    (directory / "train.py").write_text(script)
    return subprocess.run(
        [warm_python(), "-m", "sonde", "run", *words, "train.py"],
        capture_output=True,
        text=True,
        cwd=directory,
        env={**os.environ, "SONDE_DEBUGGER_ENABLED": ""},
    )


SCRIPT = """
import sys, torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 1)

    def forward(self, x):
        return self.fc(torch.log(x))

def main():
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(6):
        x = torch.rand(8, 3) + 0.5
        if step == 2 and "bad" in sys.argv:
            x[6, 1] = -1
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        print(step, loss.item().hex() if loss == loss else "nan", flush=True)

if __name__ == "__main__":
    main()
"""


def test_a_healthy_run_says_what_was_guarded_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    plain = subprocess.run(
        [warm_python(), "train.py"], capture_output=True, text=True, cwd=tmp_path
    )
    found = _run(tmp_path, SCRIPT, "--guard")
    assert found.returncode == 0
    assert found.stdout == plain.stdout
    assert found.stderr == (
        "sonde: guarded 6 steps, nothing triggered; sonde show sonde_steps shows their signals\n"
    )
    assert len(sonde.signals(tmp_path / "sonde_steps")) == 6


def test_stop_ends_the_program_before_the_update_with_its_own_exit_code(tmp_path: Path) -> None:
    script = SCRIPT.replace('"bad" in sys.argv', "True")
    found = _run(tmp_path, script, "--guard", "--on-trigger", "stop")
    assert found.returncode == 3
    assert found.stdout.split()[::2] == ["0", "1"]
    assert "the guard stopped the training before the update of step 2: the loss is nan" in (
        found.stderr
    )
    assert "Traceback" not in found.stderr
