"""Two searches share one study, in SQLite and in PostgreSQL."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tune.searches import QUADRATIC, configured, started, tuned
from tests.tune.trials.meeting import meeting

from sonde.tune.store.listing import read_study
from sonde.tune.store.outcome import OWNER, counts, state_of
from sonde.tune.store.storage import load_study

SPACE = (
    "tuner: random",
    "parameters: {x: {bounds: [0, 1], type: float, argument: --x}}",
)
TRIALS = 8


def share(directory: Path, url: str, *options: str) -> None:
    words = ("config.yaml", "--iter", str(TRIALS), *options)
    # The first trial of each search waits until the other search has one too.
    with meeting(2) as attend:
        configured(directory, attend + QUADRATIC, *SPACE)
        searches = [started(directory, *words) for _ in range(2)]
        results = [(*one.communicate(timeout=800), one.returncode) for one in searches]
    assert [code for _, _, code in results] == [0, 0], results
    study = load_study(url, None)
    done = [one for one in study.trials if counts(one)]
    assert [state_of(one) for one in done] == ["finished"] * TRIALS
    owners = {one.user_attrs[OWNER]["pid"] for one in done}
    assert owners == {one.pid for one in searches}
    assert len({one.params["x"] for one in done}) == TRIALS
    assert all(state_of(one) != "running" for one in study.trials)


def test_two_searches_on_one_sqlite_file_share_the_trials(tmp_path: Path) -> None:
    share(tmp_path, f"sqlite:///{tmp_path}/out/study.db")


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL that lives in a temporary directory, behind a Unix socket."""
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    pytest.importorskip("psycopg2", reason="the driver is not installed: psycopg2-binary")
    # The server refuses to be root, and its directory must be its user's.
    user = _other_user() if os.getuid() == 0 else None
    place = Path(tempfile.mkdtemp(prefix="sonde-pg-", dir="/tmp"))
    try:
        if user is not None:
            shutil.chown(place, user)
        data = place / "data"
        _run([programs / "initdb", "-D", data, "-U", "tuner", "-A", "trust", "-N"], user, place)
        settings = f"-k {place} -c listen_addresses='' -c fsync=off"
        log = place / "log"
        control = [programs / "pg_ctl", "-D", data, "-w", "-l", log]
        _run([*control, "-o", settings, "start"], user, place)
        try:
            _run([programs / "createdb", "-h", place, "-U", "tuner", "search"], user, place)
            yield f"postgresql+psycopg2://tuner@/search?host={place}"
        finally:
            _run([*control, "-m", "immediate", "stop"], user, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    known = shutil.which("initdb")
    return None if known is None else Path(known).parent


def _other_user() -> str:
    names = {one.pw_name for one in pwd.getpwall()}
    user = next((one for one in ("postgres", "nobody") if one in names), None)
    if user is None:
        pytest.skip("PostgreSQL does not run as root, and there is no other user")
    return user


def _run(words: list[object], user: str | None, directory: Path) -> None:
    done = subprocess.run(
        [str(one) for one in words],
        user=user,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_two_searches_on_one_postgresql_study_share_the_trials(
    tmp_path: Path, postgres: str
) -> None:
    share(tmp_path, postgres, "--storage", postgres)
    assert not (tmp_path / "out" / "study.db").exists()
    listing = read_study(tmp_path / "out")  # found through study.json
    assert len([one for one in listing.trials if one.state == "finished"]) == TRIALS
    more = tuned(tmp_path, "config.yaml", "--iter", str(TRIALS), "--storage", postgres)
    assert f"all {TRIALS} trials are done" in more.stdout


def test_a_server_that_does_not_answer_is_reported(tmp_path: Path) -> None:
    pytest.importorskip("psycopg2", reason="the driver is not installed: psycopg2-binary")
    configured(tmp_path, QUADRATIC, *SPACE)
    url = "postgresql://me:secret@127.0.0.1:1/none"
    done = tuned(tmp_path, "config.yaml", "--storage", url)
    assert done.returncode == 2
    assert "postgresql://me:***@127.0.0.1:1/none cannot be opened" in done.stderr
    assert "secret" not in done.stderr + done.stdout
