"""kill -9, twenty times: no finished trial is lost and the search reaches its end."""

import subprocess
from pathlib import Path

import pytest
from tests.tune.searches import ENVIRONMENT, PYTHON, QUADRATIC, RANDOM_X, configured

from sonde.tune.store.listing import read_study
from sonde.tune.store.outcome import state_of
from sonde.tune.store.storage import load_study

pytestmark = pytest.mark.slow

# One process imports everything and forks a search for every kill, which saves the imports.
DRIVER = """\
import glob, json, os, random, signal, sys, time
import optuna, sqlalchemy.dialects.sqlite, yaml
from sonde.cli.main import main
from sonde.tune import TuneError
from sonde.tune.store import listing, storage
from sonde.tune.trials import progress, runner, samplers, search as search_module
from sonde.tune.store.listing import read_study

def search():
    child = os.fork()
    if child:
        return child
    sys.stdout = sys.stderr = open(os.devnull, "w")
    os._exit(main(["tune", "config.yaml", "--iter", "120", "--parallel", "2"]))

def finished():
    try:
        trials = read_study("out").trials
    except TuneError:  # killed before it had made the study
        return {}
    return {one.number: one.value for one in trials if one.state == "finished"}

choose = random.Random(5)
counts, lost = [], []
known = {}
for kill in range(20):
    begun = len(glob.glob("out/trial_*"))
    child = search()
    if kill >= 4:  # the first four die at any moment of their start
        wanted = begun + choose.randint(1, 4)
        while len(glob.glob("out/trial_*")) < wanted:
            time.sleep(0.005)
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "it ended before it could be killed"
    time.sleep(choose.uniform(0.0, 0.3))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    now = finished()
    lost += [number for number, value in known.items() if now.get(number) != value]
    known = now
    counts.append(len(now))
child = search()
_, status = os.waitpid(child, 0)
now = finished()
lost += [number for number, value in known.items() if now.get(number) != value]
print(json.dumps({"counts": counts, "lost": lost, "exit": status, "done": len(now)}))
"""


def test_a_search_killed_twenty_times_loses_no_finished_trial(tmp_path: Path) -> None:
    import json

    configured(tmp_path, QUADRATIC, *RANDOM_X)
    output = subprocess.check_output(
        [PYTHON, "-c", DRIVER], cwd=tmp_path, env=ENVIRONMENT, text=True, timeout=800
    )
    result = json.loads(output)
    assert result["lost"] == []
    assert result["exit"] == 0
    assert result["done"] == 120
    assert result["counts"] == sorted(result["counts"])
    assert result["counts"][-1] > 0  # killed in mid-search, not before it began
    study = load_study(f"sqlite:///{tmp_path}/out/study.db", None)
    states = [state_of(one) for one in study.trials]
    assert states.count("finished") == 120
    assert "running" not in states
    assert states.count("interrupted") >= 5
    listing = read_study(tmp_path / "out")
    taken_back = [one for one in listing.trials if one.state == "interrupted" and one.parameters]
    tried = [one.parameters for one in listing.trials if one.state == "finished"]
    assert all(one.parameters in tried for one in taken_back)
