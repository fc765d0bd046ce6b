"""Trials run side by side, are pruned by their live values, and end at every limit."""

from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.trial import FrozenTrial
from tests.tune.searches import PYTHON, QUADRATIC, RANDOM_X, configured
from tests.tune.trials.meeting import meeting

from sonde.tune.config.file import load_config
from sonde.tune.errors import TuneError
from sonde.tune.store.listing import StudyListing
from sonde.tune.trials.runner import Runner
from sonde.tune.trials.search import open_session, with_default_limit
from sonde.tune.trials.trial import Result, RunningTrial


class Recorder:
    """Records the events of a search."""

    def __init__(self) -> None:
        self.most_at_once = 0
        self.results: list[Result] = []

    def polled(self, running: list[RunningTrial]) -> None:
        self.most_at_once = max(self.most_at_once, len(running))

    def ended(self, running: RunningTrial, result: Result) -> None:
        self.results.append(result)

    def requeued(self, trials: list[FrozenTrial]) -> None: ...


def run(directory: Path, script: str, *lines: str) -> tuple[StudyListing, str, Recorder]:
    configured(directory, script, *lines)
    config = load_config("config.yaml")
    session = open_session(config)
    recorder = Recorder()
    limited = with_default_limit(config, 0)
    reason = Runner(limited, session.study, session.template, recorder).run()
    return session.listing(), reason, recorder


def test_a_search_that_is_interrupted_ends_its_trials_and_starts_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    configured(tmp_path, "import time; time.sleep(300)", *RANDOM_X)
    session = open_session(load_config("config.yaml"))
    runner = Runner(
        replace(session.config, parallel=3),
        session.study,
        session.template,
        Recorder(),
        is_interrupted=lambda: bool(session.listing().trials),
    )
    with pytest.raises(KeyboardInterrupt):
        runner.run()
    assert [one.state for one in session.listing().trials] == ["interrupted"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def states(listing: StudyListing) -> list[str]:
    return [one.state for one in listing.trials]


def test_trials_run_side_by_side(tmp_path: Path) -> None:
    # Each waits until three are there: one after the other they would wait in vain.
    with meeting(3) as attend:
        script = f"{attend}print('loss: 1')\n"
        listing, reason, recorder = run(
            tmp_path, script, *RANDOM_X, "parallel: 3", "limits: {trials: 3}"
        )
    assert recorder.most_at_once == 3
    assert states(listing) == ["finished"] * 3
    assert reason == "all 3 trials are done"


def test_a_trial_that_is_not_promising_is_stopped_by_its_live_values(tmp_path: Path) -> None:
    # The third trial is worse than the two before it from its first value on.
    script = (
        "import glob, os, time\n"
        "open(f'seen-{os.getpid()}', 'w').close()\n"
        "is_bad = len(glob.glob('seen-*')) == 3\n"
        "for epoch in range(4):\n"
        "    print('epoch', epoch, 'loss:', 9.0 if is_bad else 1.0, flush=True)\n"
        "    if is_bad: time.sleep(60)\n"
    )
    pruner = "pruner: {name: median, args: {startup_trials: 2}}"
    listing, _, _ = run(tmp_path, script, *RANDOM_X, pruner, "limits: {trials: 3}")
    assert states(listing) == ["finished", "finished", "pruned"]
    good, _, bad = listing.trials
    assert good.course == ((1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0))
    assert (bad.reason, bad.course) == ("not promising at step 1 (9)", ((1, 9.0),))


def test_a_trial_may_take_only_so_long(tmp_path: Path) -> None:
    script = "import time\nprint('loss: 1', flush=True)\ntime.sleep(60)\n"
    listing, _, _ = run(tmp_path, script, *RANDOM_X, "limits: {trials: 1, trial_time: 0.3}")
    (trial,) = listing.trials
    assert (trial.state, trial.reason) == ("timeout", "not done after 0.3 s")
    assert trial.seconds is not None
    assert trial.seconds < 30


def test_when_the_time_is_up_trials_under_way_are_queued_again(tmp_path: Path) -> None:
    script = "import time\nprint('loss: 1', flush=True)\ntime.sleep(60)\n"
    listing, reason, _ = run(tmp_path, script, *RANDOM_X, "limits: {time: 0.3}")
    assert reason == "the time is up"
    assert states(listing) == ["interrupted"]
    study = optuna.load_study(study_name="config", storage="sqlite:///out/study.db")
    waiting = study.get_trials(states=(optuna.trial.TrialState.WAITING,))
    assert [one.system_attrs["fixed_params"] for one in waiting] == [listing.trials[0].parameters]


def test_a_search_ends_at_its_value_or_its_patience(tmp_path: Path) -> None:
    listing, reason, _ = run(tmp_path, QUADRATIC, *RANDOM_X, "limits: {value: 0.05, trials: 40}")
    assert reason.startswith("loss reached ")
    assert listing.best == listing.trials[-1].number
    same = "print('loss: 1.0')\n"
    listing, reason, _ = run(
        tmp_path, same, *RANDOM_X, "study: other", "limits: {patience: 3, trials: 40}"
    )
    assert reason == "no improvement in 3 trials"
    assert len(listing.trials) == 4


def test_a_grid_ends_by_itself_and_a_finished_one_runs_nothing(tmp_path: Path) -> None:
    grid = (
        "tuner: grid",
        "parameters: {x: {bounds: [0, 1], type: float, points: 3, argument: --x}, "
        "y: {choice: [a, b], environment: Y}}",
    )
    listing, reason, _ = run(tmp_path, QUADRATIC, *grid)
    assert reason == "all 6 combinations of the grid are done"
    found = {(one.parameters["x"], one.parameters["y"]) for one in listing.trials}
    assert found == {(x, y) for x in (0.0, 0.5, 1.0) for y in ("a", "b")}
    again, reason, recorder = run(tmp_path, QUADRATIC, *grid)
    assert recorder.results == []
    assert len(again.trials) == 6


def test_a_script_asks_for_values_and_reports_in_code(tmp_path: Path) -> None:
    script = (
        "import sonde.tune\n"
        "x = sonde.tune.suggest('x')\n"
        "width = sonde.tune.suggest('width', 8, choice=[2, 4])\n"
        "for step in (1, 2): sonde.tune.report(loss=x * width / step, step=step)\n"
    )
    listing, _, _ = run(tmp_path, script, *RANDOM_X, "limits: {trials: 2}")
    for trial in listing.trials:
        x, width = trial.parameters["x"], trial.parameters["width"]
        assert width in (2, 4)
        assert trial.value == x * width / 2
        assert trial.course == ((1, x * width), (2, x * width / 2))
        assert "SONDE_TUNE_VALUES=" in trial.command


def test_a_pattern_reads_any_output(tmp_path: Path) -> None:
    listing, _, _ = run(
        tmp_path,
        "print('result<0.25>'); print('result<0.75>')\n",
        *RANDOM_X,
        "target: {name: score, goal: maximize, pattern: 'result<([0-9.]+)>', keep: best}",
    )
    assert [one.value for one in listing.trials] == [0.75]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("print('done')\n", "no value of the target: report(loss=...) was not called, its summary"),
        ("import os\nos.kill(os.getpid(), 11)\n", "signal 11, without output"),
        ("raise SystemExit('bad data')\n", "exit code 1: bad data"),
    ],
)
def test_a_trial_that_fails_says_why(tmp_path: Path, script: str, words: str) -> None:
    listing, _, _ = run(tmp_path, script, *RANDOM_X, "limits: {trials: 1}")
    (trial,) = listing.trials
    assert trial.state == "failed"
    assert trial.reason.startswith(words)


def test_a_failure_among_successes_does_not_end_the_search(tmp_path: Path) -> None:
    script = (
        "import sys\nx = float(sys.argv[-1])\nif x < 0.5: raise ValueError\nprint('loss:', x)\n"
    )
    listing, _, _ = run(tmp_path, script, *RANDOM_X, "limits: {trials: 10}")
    assert {"failed", "finished"} == set(states(listing))
    assert len(listing.trials) == 10


def test_children_of_a_trial_end_with_it(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([{PYTHON!r}, '-S', '-c', 'import time; time.sleep(60)'])\n"
        "open('child', 'w').write(str(child.pid))\n"
        "print('loss: 1')\n"
    )
    run(tmp_path, script, *RANDOM_X)
    pid = Path("child").read_text()
    stat = Path(f"/proc/{pid}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_program_that_is_not_there_makes_no_directory(tmp_path: Path) -> None:
    Path("config.yaml").write_text("command: pyhton x\nparameters: {a: {choice: [1]}}\n")
    with pytest.raises(TuneError, match="'pyhton' cannot be found"):
        open_session(load_config("config.yaml"))
    assert list(tmp_path.iterdir()) == [tmp_path / "config.yaml"]
