"""A trial that diverges is stopped at once and says which op and line made the first NaN or Inf."""

from pathlib import Path

import pytest
from tests.tune.searches import configured, tuned

import sonde.tune
from sonde.tune.store.listing import ListedTrial, read_study

EXPLODING = """\
import argparse, torch
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, default=0.1)
lr = p.parse_args().lr
torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=lr)
x = torch.randn(32, 4)
for epoch in range(400):
    optimizer.zero_grad()
    out = net(x)
    loss = torch.exp(out ** 2).mean()
    loss.backward()
    optimizer.step()
    print("epoch", epoch, "loss:", loss.item(), flush=True)
open("to-the-end", "a").write(f"{lr}\\n")
"""
SPACE = ("tuner: grid", "parameters: {learning_rate: {choice: [0.01, 50.0]}}")


def diverged(directory: Path) -> ListedTrial:
    listing = read_study(directory / "out")
    assert sorted(one.state for one in listing.trials) == ["diverged", "finished"]
    assert listing.best_trial is not None
    assert listing.best_trial.parameters == {"learning_rate": 0.01}
    return next(one for one in listing.trials if one.state == "diverged")


@pytest.mark.parametrize("option", ["--no-watch", "--watch"])
def test_the_op_and_the_line_are_named(tmp_path: Path, option: str) -> None:
    configured(tmp_path, EXPLODING, *SPACE)
    options = ["--watch"] if option == "--watch" else []
    done = tuned(tmp_path, "config.yaml", *options)
    assert done.returncode == 0, done.stderr
    trial = diverged(tmp_path)
    assert trial.value is None
    assert trial.origin is not None
    assert "/exp-op" in trial.origin["op"]
    assert (trial.origin["made"], trial.origin["line"]) == ("Inf", 12)
    assert trial.origin["file"].endswith("train.py")
    assert "loss is" in trial.reason
    assert "train.py:12" in done.stdout
    assert (tmp_path / "to-the-end").read_text() == "0.01\n"  # the other was stopped
    rerun = Path(trial.directory) / "diverged"
    assert rerun.exists() == (option != "--watch")


def test_a_script_that_gives_up_by_itself_diverged_too_and_need_not_be_explained(
    tmp_path: Path,
) -> None:
    script = (
        "import sys\n"
        "print('loss: 3.0')\n"
        "if '--bad' in sys.argv: raise ValueError('loss is NAN or INF, terminating training')\n"
    )
    space = "parameters: {a: {choice: [true, false], argument: --bad}}"
    configured(tmp_path, script, "tuner: grid", space)
    done = tuned(tmp_path, "config.yaml", "--no-explain")
    assert done.returncode == 0, done.stderr
    states = {one.parameters["a"]: one.state for one in read_study(tmp_path / "out").trials}
    assert states == {True: "diverged", False: "finished"}


def test_a_program_sonde_cannot_watch_still_ends_with_an_answer(tmp_path: Path) -> None:
    space = "parameters: {a: {choice: [1, 2], environment: A}}"
    script = '[ "$A" = 1 ] && echo loss: nan || echo loss: 1\n'
    configured(tmp_path, script, "tuner: grid", space, name="run.sh")
    done = tuned(tmp_path, "config.yaml")
    assert done.returncode == 0, done.stderr
    (trial,) = (one for one in read_study(tmp_path / "out").trials if one.state == "diverged")
    assert trial.reason.startswith("loss is nan at step 1; the origin is not known: a second run")


def test_a_function_names_its_op_too(capfd: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    calls = []

    def train(parameters: dict[str, float]) -> None:
        calls.append(parameters["rate"])
        weight = torch.nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight], lr=parameters["rate"])
        for step in range(60):
            optimizer.zero_grad()
            loss = torch.exp(weight**2).sum()
            loss.backward()
            sonde.tune.report(loss, step=step)
            optimizer.step()

    found = sonde.tune.search(
        train, {"rate": {"choice": [0.001, 100.0]}}, tuner="grid", trials=None, seed=0
    )
    states = {one.parameters["rate"]: one for one in found.trials}
    assert states[0.001].state == "finished"
    bad = states[100.0]
    assert bad.state == "diverged"
    assert bad.origin is not None
    assert (bad.origin["made"], Path(bad.origin["file"]).name) == ("Inf", "test_divergence.py")
    assert bad.origin["code"].strip() == "loss = torch.exp(weight**2).sum()"
    assert sorted(calls) == [0.001, 100.0, 100.0]
    assert capfd.readouterr() == ("", "")  # the second call is not heard
