"""``sonde tune`` as a command."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.tune.searches import PYTHON, QUADRATIC, RANDOM_X, configured, example, started, tuned

from sonde.tune.store.listing import read_study

pytestmark = pytest.mark.slow

DOCUMENT_SCRIPT = """\
import torch
from torch import nn
from sonde.summary import SummaryCollector
from sonde.train import Model
from sonde.train.metrics import Accuracy
from sonde.tune import HyperConfig

config = HyperConfig()
params = config.params
torch.manual_seed(0)
x = torch.randn(512, 8)
y = (x.sum(1) > 0).long()
dataset = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(x, y), batch_size=params.batch_size
)
network = nn.Linear(8, 2)
optimizer = torch.optim.SGD(network.parameters(), params.learning_rate, momentum=params.momentum)
model = Model(network, nn.CrossEntropyLoss(), optimizer, metrics={"Accuracy": Accuracy()})
summary = SummaryCollector(config.summary_dir, custom_lineage_data=config.custom_lineage_data)
model.fit(1, dataset, dataset, callbacks=[summary])
"""


WAITING = """\
import os, socket
print("loss: 1.0", flush=True)
if not os.path.exists("go"):
    socket.create_connection(("127.0.0.1", PORT)).recv(1)
"""


@pytest.mark.document(
    94,
    says="Hyper-Parameter Optimization with MindOptimizer",
    how="`sonde tune config.yaml --iter N`: the same YAML file",
)
def test_the_example_of_the_document_runs(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(example(tmp_path, tmp_path / "summaries"))
    shell = f"cd {tmp_path} && {shlex.quote(PYTHON)} train.py\n"
    (tmp_path / "run_alexnet_ascend.sh").write_text(shell)
    (tmp_path / "train.py").write_text(DOCUMENT_SCRIPT)
    done = tuned(tmp_path, "config.yaml", "--iter", "1")
    assert done.returncode == 0, done.stderr + done.stdout
    listing = read_study(tmp_path / "summaries")
    assert [one.state for one in listing.trials] == ["finished"]
    assert (listing.target, listing.goal) == ("Accuracy", "maximize")
    for trial in listing.trials:
        assert trial.value is not None
        assert 0.0 <= trial.value <= 1.0
        index = json.loads((Path(trial.directory) / "summary.json").read_text())
        assert index["scalars"]["eval/Accuracy"]["last"] == trial.value
        assert index["lineage"]["train"]["momentum"] == trial.parameters["momentum"]
        assert index["lineage"]["train"]["batch_size"] == trial.parameters["batch_size"]


def test_a_search_leaves_the_best_values_and_the_command_that_repeats_them(tmp_path: Path) -> None:
    configured(tmp_path, QUADRATIC, *RANDOM_X)
    done = tuned(tmp_path, "config.yaml", "--iter", "6", "--parallel", "2")
    assert done.returncode == 0, done.stderr
    best = yaml.safe_load((tmp_path / "out" / "best.yaml").read_text())
    listing = read_study(tmp_path / "out")
    values = [one.value for one in listing.trials]
    assert len(values) == 6
    assert best["target"] == {"name": "loss", "goal": "minimize", "value": min(values)}
    again = subprocess.check_output(shlex.split(best["command"]), cwd=tmp_path, text=True)
    assert again == f"loss: {best['target']['value']}\n"
    assert f"  {best['command']}\n" in done.stdout
    assert len(re.findall(r"(?m)^trial \d+  finished  loss ", done.stdout)) == 6
    assert "all 6 trials are done: 6 finished" in done.stdout
    page = (tmp_path / "out" / "report.html").read_text()
    assert best["command"].split()[-1] in page


def test_without_a_limit_one_more_trial_is_run(tmp_path: Path) -> None:
    configured(tmp_path, QUADRATIC, *RANDOM_X)
    for count in (1, 2):
        done = tuned(tmp_path, "config.yaml")
        assert "that was one trial; --iter N runs more" in done.stderr
        assert len(read_study(tmp_path / "out").trials) == count


def test_mistakes_in_the_configuration_are_all_reported_and_the_exit_code_is_2(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.yaml").write_text(
        "comand: x\ntuner: bayes\nparameters: {a: {choice: []}}\n"
    )
    done = tuned(tmp_path, "config.yaml")
    assert done.returncode == 2
    assert done.stdout == ""
    assert [line.partition(": ")[2].split(":")[1] for line in done.stderr.splitlines()] == [
        "1",
        "1",
        "2",
        "3",
    ]
    assert list(tmp_path.iterdir()) == [tmp_path / "config.yaml"]


def test_check_shows_how_values_arrive_and_runs_nothing(tmp_path: Path) -> None:
    script = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr')\nopen('ran', 'w')\n"
    )
    space = "parameters: {learning_rate: {choice: [0.1]}, width: {choice: [8]}}"
    configured(tmp_path, script, space)
    done = tuned(tmp_path, "config.yaml", "--check")
    assert done.returncode == 0
    assert "learning_rate: --lr, added to the command" in done.stdout
    assert "train.py --lr 0.1" in done.stdout
    assert "neither the command nor its script uses width" in done.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == ["config.yaml", "train.py"]


def test_a_command_that_cannot_work_ends_the_search_after_three_trials(tmp_path: Path) -> None:
    configured(tmp_path, "raise ValueError('no data')\n", *RANDOM_X)
    done = tuned(tmp_path, "config.yaml", "--iter", "50")
    assert done.returncode == 2
    assert "the first 3 trials failed" in done.stderr
    assert "exit code 1: ValueError: no data" in done.stderr
    assert done.stderr.strip().endswith("[tune-all-failed]")


def test_a_program_that_is_not_there_is_reported(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("command: pyhton x\nparameters: {a: {choice: [1]}}\n")
    done = tuned(tmp_path, "config.yaml")
    assert done.returncode == 2
    assert "the command's program 'pyhton' cannot be found" in done.stderr


def test_another_space_in_the_same_study_is_refused(tmp_path: Path) -> None:
    configured(tmp_path, QUADRATIC, *RANDOM_X)
    tuned(tmp_path, "config.yaml", "--iter", "1")
    configured(tmp_path, QUADRATIC, "parameters: {x: {choice: [1, 2], argument: --x}}")
    done = tuned(tmp_path, "config.yaml", "--iter", "3")
    assert done.returncode == 2
    assert "was made with another space" in done.stderr


def test_an_interrupted_search_ends_its_trials_and_continues(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        configured(tmp_path, WAITING.replace("PORT", str(port)), *RANDOM_X)
        process = started(tmp_path, "config.yaml", "--iter", "2")
        try:
            listener.settimeout(60)
            with listener.accept()[0]:
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, errors
    assert "the same command continues the search" in errors
    (first,) = read_study(tmp_path / "out").trials
    assert first.state == "interrupted"
    assert b"SONDE_TUNE_TRIAL=" + str(tmp_path).encode() not in _environments()
    (tmp_path / "go").touch()
    done = tuned(tmp_path, "config.yaml", "--iter", "2")
    assert done.returncode == 0, done.stderr
    _, again, last = read_study(tmp_path / "out").trials
    assert (again.state, last.state) == ("finished", "finished")
    assert again.parameters == first.parameters


def _environments() -> bytes:
    found = b""
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            found += entry.read_bytes()
        except OSError:
            continue
    return found


@pytest.mark.skipif(os.name != "posix", reason="needs a terminal")
def test_in_a_terminal_the_table_is_updated(tmp_path: Path) -> None:
    import pty

    configured(tmp_path, QUADRATIC, *RANDOM_X)
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sonde", "tune", "config.yaml", "--iter", "3"],
        cwd=tmp_path,
        stdout=slave,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        shown += data
    process.wait()
    os.close(master)
    assert b"3 of 3 trials done, best loss" in shown
    assert b"finished" in shown


def test_show_lists_a_search(tmp_path: Path) -> None:
    configured(tmp_path, QUADRATIC, *RANDOM_X)
    tuned(tmp_path, "config.yaml", "--iter", "5")
    words = [PYTHON, "-m", "sonde", "show", "out"]
    shown = subprocess.check_output(words, cwd=tmp_path, text=True)
    listing = read_study(tmp_path / "out")
    assert listing.best_trial is not None
    assert shown.startswith("out: a search to minimize loss: 5 finished\n")
    assert f"best loss {listing.best_trial.value!r}, trial {listing.best}" in shown
    assert f"  {listing.best_trial.command}\n" in shown
    rows = re.findall(r"(?m)^ +(\d+) +finished", shown)
    ranked = sorted(listing.trials, key=lambda one: one.value or 0.0)
    assert list(map(int, rows)) == [one.number for one in ranked]
    two = subprocess.check_output([*words, "--limit", "2"], cwd=tmp_path, text=True)
    assert "and 3 more trials" in two
    document = json.loads(subprocess.check_output([*words, "--json"], cwd=tmp_path))
    assert [one["value"] for one in document["trials"]] == [one.value for one in listing.trials]
