"""Studies outlive the searches that fill them."""

import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from sonde.tune.errors import TuneError
from sonde.tune.store.outcome import ATTEMPT, OWNER, state_of
from sonde.tune.store.ownership import MOST_ATTEMPTS, Owner, ask_signed, recover, this_process
from sonde.tune.store.storage import load_study, open_study, without_password
from sonde.tune.trials.trial_process import kill_leftovers, new_directory


def study_at(directory: Path, goal: str = "minimize") -> optuna.Study:
    url = f"sqlite:///{directory}/deep/study.db"
    sampler, pruner = optuna.samplers.RandomSampler(), optuna.pruners.NopPruner()
    return open_study(url, "s", goal, sampler, pruner)  # type: ignore[arg-type]


def test_a_running_process_is_alive_and_an_ended_one_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mine = this_process()
    from sonde.tune.store.ownership import process_start

    owner = Owner(mine.host, mine.boot, process.pid, process_start(process.pid))
    assert not mine.is_gone()
    assert not owner.is_gone()
    process.communicate()
    assert owner.is_gone()
    assert Owner(mine.host, "another boot", mine.pid, mine.started).is_gone()
    assert Owner(mine.host, mine.boot, mine.pid, "1").is_gone()  # a namesake
    assert not Owner("elsewhere", "x", 1, "1").is_gone()


def test_trials_of_a_dead_search_are_queued_again(tmp_path: Path) -> None:
    study = study_at(tmp_path)
    finished = ask_signed(study)
    study.tell(finished, finished.suggest_float("x", 0, 1))
    abandoned, mine = ask_signed(study), ask_signed(study)
    x = abandoned.suggest_float("x", 0, 1)
    gone = {**asdict(this_process()), "started": "1", "alive": 0.0}
    abandoned.set_user_attr(OWNER, gone)
    assert [one.number for one in recover(study)] == [abandoned.number]
    assert recover(study) == []
    states = [state_of(one) for one in study.trials]
    assert states == ["finished", "interrupted", "running", "waiting"]
    again = ask_signed(study)
    assert again.suggest_float("x", 0, 1) == x
    assert again.user_attrs[ATTEMPT] == 2
    assert mine.number not in [one.number for one in recover(study)]


def test_a_trial_that_kills_every_search_is_given_up(tmp_path: Path) -> None:
    study = study_at(tmp_path)
    for _ in range(MOST_ATTEMPTS):
        trial = ask_signed(study)
        trial.suggest_float("x", 0, 1)
        trial.set_user_attr(OWNER, {**asdict(this_process()), "started": "1", "alive": 0.0})
        recover(study)
    assert study.get_trials(states=(TrialState.WAITING,)) == []


def test_a_machine_without_heartbeat_loses_its_trials_and_others_do_not(tmp_path: Path) -> None:
    import time

    study = study_at(tmp_path)
    for alive in (time.time(), time.time() - 10_000):
        owner = {"host": "elsewhere", "boot": "b", "pid": 1, "started": "1", "alive": alive}
        ask_signed(study).set_user_attr(OWNER, owner)
    assert [one.number for one in recover(study)] == [1]


def test_another_goal_is_refused(tmp_path: Path) -> None:
    study_at(tmp_path)
    with pytest.raises(TuneError, match=r"made to minimize its target, not to maximize.*-study\]"):
        study_at(tmp_path, "maximize")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "is not a storage such as"),
        ("oracle-of-delphi://x/y", "oracle-of-delphi"),
        ("sqlite:////proc/nowhere/x.db", "No such file or directory|cannot be opened"),
    ],
)
def test_a_storage_that_cannot_be_opened_says_why(
    url: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sonde.tune.store.storage.time.sleep", lambda seconds: None)
    sampler, pruner = optuna.samplers.RandomSampler(), optuna.pruners.NopPruner()
    with pytest.raises(TuneError, match=words) as caught:
        open_study(url, "s", "minimize", sampler, pruner)
    assert caught.value.slug in ("tune-storage", "extra-missing")


def test_reading_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(TuneError, match="there is no file"):
        load_study(f"sqlite:///{tmp_path}/none.db", None)
    assert list(tmp_path.iterdir()) == []


def test_a_waiting_trial_is_claimed_by_one_search_only(tmp_path: Path) -> None:
    """Optuna on SQLite alone lets two processes take the same one now and then."""
    code = (
        "import sys, optuna\n"
        "from sonde.tune.store.ownership import ask_signed\n"
        "from sonde.tune.store.storage import open_study\n"
        "optuna.logging.set_verbosity(optuna.logging.ERROR)\n"
        "parts = optuna.samplers.RandomSampler(), optuna.pruners.NopPruner()\n"
        "study = open_study(sys.argv[1], 's', 'minimize', *parts)\n"
        "print('up', flush=True)\n"
        "input()\n"
        "for _ in range(25):\n"
        "    trial = ask_signed(study)\n"
        "    print(trial.number)\n"
        "    study.tell(trial, 0.0)\n"
    )
    words = [sys.executable, "-c", code, f"sqlite:///{tmp_path}/study.db"]
    searches = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for one in searches:
        assert one.stdout is not None
        assert one.stdout.readline() == "up\n"
    for one in searches:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    taken = [number for one in searches for number in one.communicate(timeout=120)[0].split()]
    assert [one.returncode for one in searches] == [0, 0]
    assert len(taken) == len(set(taken)) == 50


def test_passwords_are_not_shown() -> None:
    assert without_password("postgresql://me:secret@host/db") == "postgresql://me:***@host/db"
    assert without_password("sqlite:////a:b/c@d.db") == "sqlite:////a:b/c@d.db"


def test_a_journal_file_is_a_storage_too(tmp_path: Path) -> None:
    sampler, pruner = optuna.samplers.RandomSampler(), optuna.pruners.NopPruner()
    for expected in (0, 1):
        study = open_study(f"journal://{tmp_path}/j.log", "s", "minimize", sampler, pruner)
        assert len(study.trials) == expected
        trial = ask_signed(study)
        study.tell(trial, trial.suggest_float("x", 0, 1))


def test_processes_that_a_trial_left_running_are_found_and_no_others(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "print('up', flush=True); input()"]
    place = new_directory(tmp_path, 7)
    assert place.name == "trial_0007"
    assert new_directory(tmp_path, 7).name == "trial_0007-2"

    def start(directory: Path) -> subprocess.Popen[bytes]:
        made = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "SONDE_TUNE_TRIAL": str(directory)},
        )
        assert made.stdout is not None
        made.stdout.readline()
        return made

    ours, other = start(place), start(tmp_path / "trial_0007-2")
    assert kill_leftovers(place) == 1
    assert ours.wait() == -signal.SIGKILL
    assert other.poll() is None
    for one in (ours, other):
        one.communicate()
