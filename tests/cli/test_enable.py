"""``sonde enable``: the environment variables take effect in plain ``python train.py``.

Each test uses a Python environment that was made for this file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest
from tests.server.serving_in_thread import serving

from sonde import startup
from sonde.cli import site_file
from sonde.core.errors import UsageError

SRC = Path(__file__).parents[2] / "src"

TRAINING = """
    import os, sys
    import torch

    os.chdir("/")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = net(torch.arange(8.0).reshape(2, 4)).square().mean()
        loss.backward()
        optimizer.step()
        print(step, loss.item().hex())
    net(torch.ones(2, 5))
    """

FAILING = """
    import os
    import torch

    os.chdir("/")
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = net(torch.ones(2, 4)).square().mean()
        loss = (loss - loss.detach() - 1).log() if step == 1 else loss
        loss.backward()
        optimizer.step()
    print("ended")
    """


class Ended(NamedTuple):
    """How a program ended."""

    returncode: int
    stdout: str
    stderr: str


class Environment:
    """A Python environment with torch and Sonde, and a folder for programs."""

    def __init__(self, place: Path) -> None:
        self.place = place
        venv.create(place / "venv", symlinks=True, with_pip=False)
        (self.site,) = (place / "venv" / "lib").glob("python3.*/site-packages")
        (self.site / "test_paths.pth").write_text(f"{SRC}\n{sysconfig.get_path('purelib')}\n")

    @property
    def file(self) -> Path:
        return self.site / site_file.NAME

    def start(self, *words: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.place / "venv" / "bin" / "python", *words],
            cwd=self.place,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(self.place),
                "OMP_NUM_THREADS": "1",
                **environ,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def python(self, *words: str, **environ: str) -> Ended:
        process = self.start(*words, **environ)
        try:
            out, err = process.communicate(timeout=800)
        finally:
            process.kill()
        return Ended(process.returncode, out, err)

    def sonde(self, *words: str, **environ: str) -> Ended:
        return self.python("-m", "sonde", *words, **environ)

    def write(self, name: str, text: str) -> str:
        (self.place / name).write_text(dedent(text))
        return name


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("environment"))


@pytest.fixture
def environment(shared: Environment) -> Iterator[Environment]:
    """The environment, which is not enabled."""
    yield shared
    shared.file.unlink(missing_ok=True)


@pytest.fixture
def enabled(environment: Environment) -> Environment:
    environment.file.write_text(site_file.line())
    return environment


def config(environment: Environment, target: str, **changes: object) -> str:
    """Write a dump configuration; its name."""
    common = {
        "dump_mode": 0,
        "path": str(environment.place / target),
        "net_name": "Net",
        "iteration": "all",
        "saved_data": "statistic",
        "input_output": 0,
        "kernels": [],
        "support_device": [0, 1],
        **changes,
    }
    name = f"{target}.json"
    content = {"common_dump_settings": common, "e2e_dump_settings": {"enable": True}}
    (environment.place / name).write_text(json.dumps(content))
    return name


def files(folder: Path) -> dict[str, bytes]:
    """The statistics of a dump."""
    found = sorted(folder.rglob("statistic.csv"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def frames(trace: str) -> list[str]:
    """The places in a traceback, but for torch's detour when there are hooks on modules."""
    places = re.findall(r'File "(.+)", line \d+, in (\w+|<module>)', trace)
    return [f"{file} {name}" for file, name in places if name != "inner"]


def test_enable_writes_a_file_says_so_and_disable_removes_it(environment: Environment) -> None:
    done = environment.sonde("enable")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"wrote {environment.file}\n")
    written = environment.file.read_bytes()
    again = environment.sonde("enable")
    assert again.stdout.startswith(f"already enabled: {environment.file}\n")
    assert environment.file.read_bytes() == written
    status = environment.sonde("status")
    assert (status.returncode, status.stderr) == (0, "")
    assert status.stdout.splitlines() == [f"enabled by {environment.file}", "no variable is set"]
    done = environment.sonde("disable")
    assert done.stdout == f"removed {environment.file}\n"
    assert not environment.file.exists()
    done = environment.sonde("disable")
    assert (done.returncode, done.stdout) == (
        0,
        "nothing to remove: this Python environment is not enabled\n",
    )


def test_the_file_of_another_sonde_is_named_and_replaced(environment: Environment) -> None:
    environment.file.write_text("import os\n")
    status = environment.sonde("status").stdout
    assert "(of another Sonde; run 'sonde enable' again)" in status
    assert "but Python does not execute it" in status
    assert environment.sonde("enable").stdout.startswith("wrote ")
    assert environment.file.read_text() == site_file.line()


def test_an_environment_that_cannot_be_written_to_is_one_error(
    environment: Environment,
) -> None:
    if os.geteuid() == 0:
        environment.file.mkdir()  # What root cannot replace either.
    else:
        environment.site.chmod(0o555)
    try:
        done = environment.sonde("enable")
    finally:
        environment.site.chmod(0o755)
        if environment.file.is_dir():
            environment.file.rmdir()
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"sonde: this Python environment cannot be written to ({environment.site}"
    )
    assert line.endswith("or start programs with 'sonde run' [enable-not-writable]")


def test_the_users_own_directory_is_used_where_the_environment_cannot_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    user = tmp_path / "home" / "site-packages"
    monkeypatch.setattr(site_file.sysconfig, "get_path", lambda _: str(tmp_path / "file" / "lib"))
    monkeypatch.setattr(site_file.site, "getsitepackages", list)
    monkeypatch.setattr(site_file.site, "getusersitepackages", lambda: str(user))
    for is_used in (False, True):
        monkeypatch.setattr(site_file.site, "ENABLE_USER_SITE", is_used)
        if is_used:
            assert site_file.write() == user / site_file.NAME
            assert site_file.present() == [user / site_file.NAME]
            assert site_file.remove() == [user / site_file.NAME]
        else:
            with pytest.raises(UsageError, match=r"cannot be written to .*Not a directory"):
                site_file.write()
    assert list(user.iterdir()) == []


def test_without_a_variable_python_imports_and_prints_nothing_more(enabled: Environment) -> None:
    code = "import sys; print(sorted(sys.modules), [type(each) for each in sys.meta_path])"
    with_file = enabled.python("-c", code)
    enabled.file.unlink()
    without = enabled.python("-c", code)
    assert (with_file.stdout, with_file.stderr) == (without.stdout, "")


def test_without_torch_a_variable_changes_nothing(enabled: Environment) -> None:
    code = "import sys; print([name for name in sys.modules if name.startswith('sonde')])"
    done = enabled.python("-W", "error", "-X", "dev", "-c", code, MINDSPORE_DUMP_CONFIG="no.json")
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_the_file_that_python_executes_can_be_read_in_any_locale() -> None:
    assert Path(startup.__file__).read_bytes().isascii()
    assert site_file.line().isascii()
    assert site_file.line().count("\n") == 1


def test_the_file_is_harmless_after_sonde_was_removed(environment: Environment) -> None:
    environment.file.write_text(site_file.line().replace("startup.py", "removed.py"))
    done = environment.python("-c", "print('ran')", MINDSPORE_DUMP_CONFIG="no.json")
    assert (done.stdout, done.stderr) == ("ran\n", "")


def test_status_says_what_each_variable_would_do(environment: Environment) -> None:
    name = config(environment, "status", iteration="0|5-8", kernels=["relu"], dump_mode=1)
    done = environment.sonde(
        "status",
        MINDSPORE_DUMP_CONFIG=name,
        ENABLE_MS_DEBUGGER="1",
        MS_DEBUGGER_PARTIAL_MEM="1",
        SONDE_GUARD="1",
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("not enabled: ")
    assert f"MINDSPORE_DUMP_CONFIG={name}" in lines
    assert "statistics of relu; inputs and outputs" in done.stdout
    assert "steps 0|5-8" in done.stdout
    assert "debugger server at 127.0.0.1:50051" in done.stdout
    assert "at most 67.1 MB of memory" in done.stdout
    assert "SONDE_GUARD has no effect, because a dump or the debugger" in done.stdout
    guarded = environment.sonde("status", SONDE_GUARD="1")
    place = environment.place / "sonde_steps"
    assert f"would guard every step, and write to {place}" in guarded.stdout
    bad = environment.sonde("status", MINDSPORE_DUMP_CONFIG="no.json", ENABLE_MS_DEBUGGER="yes")
    assert bad.returncode == 2
    assert "ENABLE_MS_DEBUGGER must be 1 or 0 (got 'yes')" in bad.stdout
    assert bad.stderr.splitlines() == [
        "sonde: no.json: cannot be read: No such file or directory [config-file]",
        "sonde: no.json: this file was read because MINDSPORE_DUMP_CONFIG names it [config-file]",
    ]


@pytest.mark.slow
@pytest.mark.document(
    43,
    says="export `MINDSPORE_DUMP_CONFIG` and execute the training script",
    how="the same after `sonde enable`, once per Python environment; or `sonde run train.py`",
)
def test_a_program_is_dumped_as_under_sonde_run(enabled: Environment) -> None:
    enabled.write("train.py", TRAINING)
    plain = enabled.python("train.py")
    ours = config(enabled, "with_python")
    done = enabled.python("train.py", MINDSPORE_DUMP_CONFIG=ours)
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert frames(done.stderr) == frames(plain.stderr)
    assert f"/{ours} (from MINDSPORE_DUMP_CONFIG)\n" in done.stderr
    other = config(enabled, "with_run")
    run = enabled.sonde("run", "train.py", MINDSPORE_DUMP_CONFIG=other)
    assert run.stdout == plain.stdout
    found = files(enabled.place / "with_python")
    assert len(found) == 4  # the last step is the one that fails
    assert {name: _without_times(data) for name, data in found.items()} == {
        name: _without_times(data) for name, data in files(enabled.place / "with_run").items()
    }
    lines = [line for line in run.stderr.splitlines() if line.startswith("sonde: ")]
    assert len(lines) == len(set(lines)), "observed twice"


def _without_times(data: bytes) -> list[list[bytes]]:
    """The cells of a table but for the column with the times."""
    rows = [line.split(b",") for line in data.splitlines()]
    times = [number for number, name in enumerate(rows[0]) if name.lower() == b"timestamp"]
    return [[cell for number, cell in enumerate(row) if number not in times] for row in rows]


@pytest.mark.slow
@pytest.mark.document(43)
def test_a_bad_file_ends_the_program_before_it_trains(enabled: Environment) -> None:
    enabled.write("train.py", TRAINING)
    (enabled.place / "bad.json").write_text('{"common_dump_settings": {"dump_mode": 5}}')
    done = enabled.python("train.py", MINDSPORE_DUMP_CONFIG="bad.json")
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert len(lines) > 2
    assert all(line.startswith(f"sonde: {enabled.place}/bad.json: ") for line in lines)


@pytest.mark.slow
def test_a_process_that_does_not_train_says_so_and_leaves_dumps_alone(enabled: Environment) -> None:
    name = config(enabled, "nothing")
    done = enabled.python("-c", "import torch; print(torch.ones(2).sum())", SONDE_DUMP_CONFIG=name)
    assert done.stdout == "tensor(2.)\n"
    assert done.stderr == (
        "sonde: SONDE_DUMP_CONFIG is set but had no effect: this process built no module and no "
        "optimizer and ran no backward pass [variable-unused]\n"
    )
    assert not (enabled.place / "nothing").exists()


RANKS = """
    import torch, torch.distributed as dist
    from torch.utils.data import DataLoader, Dataset

    class Data(Dataset):
        def __len__(self):
            return 4
        def __getitem__(self, index):
            return torch.nn.Linear(1, 4, bias=False).weight.detach().flatten()

    if __name__ == "__main__":
        dist.init_process_group("gloo")
        # Before the first module: the training itself is not observed yet.
        data = list(DataLoader(Data(), 2, num_workers=1, multiprocessing_context="spawn"))
        net = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for batch in data:
            net(batch).sum().backward()
            optimizer.step()
        dist.destroy_process_group()
    """


@pytest.mark.slow
def test_ranks_of_torchrun_are_observed_its_other_processes_are_not(enabled: Environment) -> None:
    enabled.write("ranks.py", RANKS)
    name = config(enabled, "ranks", iteration="0")
    done = enabled.python(
        *("-m", "torch.distributed.run", "--nproc-per-node", "2", "ranks.py"),
        MINDSPORE_DUMP_CONFIG=name,
    )
    assert done.returncode == 0, done.stderr
    found = files(enabled.place / "ranks")
    assert sorted(file.split("/")[0] for file in found) == ["rank_0", "rank_1"]
    assert done.stderr.count("(from MINDSPORE_DUMP_CONFIG)") == 1
    assert "[variable-unused]" not in done.stderr
    assert "[dump-moved]" not in done.stderr


SPAWNING = """
    import os
    import torch

    def train(number):
        net = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        assert os.environ["SONDE_CAPTURING_PROCESS"] == str(os.getpid())

    if __name__ == "__main__":
        torch.multiprocessing.spawn(train, nprocs=2)
    """


@pytest.mark.slow
def test_spawned_ranks_are_observed_once(enabled: Environment) -> None:
    enabled.write("spawning.py", SPAWNING)
    name = config(enabled, "spawned")
    done = enabled.python("spawning.py", MINDSPORE_DUMP_CONFIG=name)
    assert done.returncode == 0, done.stderr
    found = files(enabled.place / "spawned")
    assert sorted(file.split("/")[0] for file in found) == ["rank_0", "rank_1"]
    assert "[dump-moved]" not in done.stderr
    assert "[variable-unused]" not in done.stderr


@pytest.mark.slow
@pytest.mark.document(217)
def test_the_debugger_is_asked_for_and_bad_values_are_reported(enabled: Environment) -> None:
    enabled.write("train.py", TRAINING)
    with serving() as server:
        process = enabled.start(
            "train.py",
            ENABLE_MS_DEBUGGER="1",
            MS_DEBUGGER_PORT=str(server.rank_port),
            SONDE_DEBUGGER_TOKEN=server.token,
            SONDE_RUN_ID="r",
        )
        try:
            server.wait_for("/runs/r", _is_paused, seconds=100)
            server.control("r", "terminate")
            out, err = process.communicate(timeout=100)
        finally:
            process.kill()
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "sonde: the training was ended from the debugger"
    assert "Traceback" not in err
    done = enabled.python("train.py", ENABLE_MS_DEBUGGER="yes", SONDE_GUARD="yes")
    assert done.stderr.count("ENABLE_MS_DEBUGGER must be 1 or 0 (got 'yes')") == 1
    assert done.stderr.count("SONDE_GUARD must be 1, 0 or a directory") == 1
    assert "had no effect" not in done.stderr


@pytest.mark.slow
def test_the_guard_is_asked_for_and_keeps_the_step_that_goes_wrong(enabled: Environment) -> None:
    enabled.write("guarded.py", FAILING)
    plain = enabled.python("guarded.py")
    done = enabled.python("guarded.py", SONDE_GUARD="./guarded")
    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    place = enabled.place / "guarded"
    first, *others = done.stderr.splitlines()
    assert first == (
        f"sonde: guarding every step; one that goes wrong is kept in {place} (from SONDE_GUARD)"
    )
    assert others[0].startswith("sonde: step 1: the loss is nan; it began at Default/log-op0")
    assert [path.name for path in place.glob("step_*")] == ["step_1.rank_0"]


def _is_paused(run: Any) -> bool:
    return [rank["state"] for rank in run["ranks"]] == ["paused"]
