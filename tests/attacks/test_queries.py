"""Queries that reach for files outside the run, or for more than an answer."""

import os
from pathlib import Path

import pytest
from tests.trends.made_stores import MadeTraining, write_training

from sonde.cli.main import main
from sonde.core.errors import SondeError
from sonde.core.text.terminal_text import printable
from sonde.trends.database import TrendDatabase


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("queries")
    (folder / "secret.csv").write_text("word\nsesame\n")
    write_training(MadeTraining(layers=1, steps=3), folder / "dump")
    (folder / "dump" / "link.csv").symlink_to(folder / "secret.csv")
    return folder / "dump"


READING = (
    "from read_text('{outside}/secret.csv')",
    "from '{outside}/secret.csv'",
    "from read_csv('{inside}/../secret.csv')",
    "from read_csv('{inside}/link.csv')",
    "from glob('{outside}/*')",
    "from read_text('/proc/self/environ')",
    "from read_csv('https://127.0.0.1:9/x.csv')",
)
WRITING = (
    "copy tensors to '{outside}/stolen.csv'",
    "copy tensors to '{inside}/rank_0/statistics/rows.0-9.thinned.parquet'",
    "copy (pivot tensors on step using max(max) group by op) to '{inside}/stolen.csv'",
    "explain analyze copy tensors to '{inside}/stolen.csv'",
    "export database '{inside}/stolen'",
    "attach '{inside}/stolen.db' as other",
    "from tensors; copy tensors to '{inside}/stolen.csv'",
    "create or replace table ops as select 1",
    "insert into ops from ops",
)
SETTINGS = (
    "set enable_external_access = true",
    "set allowed_directories = ['/']",
    "load '/usr/lib/x.duckdb_extension'",
    "install httpfs",
    "pragma enable_profiling = 'json'",
)


@pytest.mark.parametrize("sql", [*READING, *WRITING, *SETTINGS, "", ";", "select \udcff"])
def test_a_query_opens_and_changes_nothing_but_the_run(
    sql: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(run.parent)
    assert main(["query", str(run), sql.format(outside=run.parent, inside=run)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("sonde: ")
    assert said.err.count("\n") == 1
    assert "sesame" not in said.err
    assert tree(run.parent) == before


def test_queries_that_read_the_run_are_answered(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "link to the run"
    link.symlink_to(run)
    for sql in (
        "pivot tensors on step using max(max) group by op",
        "describe tensors",
        "summarize rows",
        "explain from tensors",
        "with found as (from tensors) select count(*) as copy from found;",
    ):
        for place in (run, link, run / "rank_0"):
            assert main(["query", str(place), sql]) == 0
    assert capsys.readouterr().err == ""


def test_a_rank_that_begins_later_is_found(tmp_path: Path) -> None:
    training = MadeTraining(layers=1, steps=2)
    write_training(training, tmp_path)
    database = TrendDatabase(tmp_path)
    write_training(training, tmp_path, rank=1)
    database.refresh()
    assert database.query("select distinct rank from rows order by 1").rows == ((0,), (1,))
    with pytest.raises(SondeError, match="one query that reads"):
        database.query("copy rows to 'stolen.csv'")
    database.close()


def test_control_characters_of_a_result_are_escaped(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sql = "select chr(27) || '[2J' as \"name\x1b[2J\", 'a' || chr(10) || 'sonde: fine' as text"
    assert main(["query", str(run), sql]) == 0
    shown = capsys.readouterr().out
    assert printable(shown, keep="\n") == shown
    assert "\nsonde: fine" not in shown


def tree(directory: Path) -> dict[str, bytes]:
    """The files below a directory and their content."""
    return {
        os.path.join(folder, name): Path(folder, name).read_bytes()
        for folder, _, names in os.walk(directory)
        for name in names
    }
