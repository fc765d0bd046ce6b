"""Which files of a directory count."""

from __future__ import annotations

from pathlib import Path

from sonde.dump.statistic_store.files import list_files, parse_file


def names(directory: Path, *files: str) -> list[str]:
    for name in files:
        (directory / name).touch()
    return [each.path.name for each in list_files(directory, "rows")]


def test_a_file_counts_until_one_of_a_later_form_has_its_rows(tmp_path: Path) -> None:
    pieces = ["rows.0-9.piece.parquet", "rows.10-19.piece.parquet", "rows.20-29.piece.parquet"]
    assert names(tmp_path, *pieces, "ops.0-9.piece.parquet") == pieces
    merged = "rows.0-19.merged.parquet"
    assert names(tmp_path, merged) == [merged, pieces[2]]
    assert names(tmp_path, "rows.0-29.op_order.parquet") == ["rows.0-29.op_order.parquet"]
    assert names(tmp_path, "rows.0-29.thinned.parquet") == ["rows.0-29.thinned.parquet"]


def test_files_that_are_not_whole_or_of_other_programs_are_ignored(tmp_path: Path) -> None:
    assert names(tmp_path, ".rows.0-9.piece.parquet.12-ab@host.partial", "notes.txt") == []
    assert parse_file(Path("rows.0-9.other.parquet")) is None
    assert list_files(tmp_path / "missing", "rows") == ()
