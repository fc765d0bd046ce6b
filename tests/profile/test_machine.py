from pathlib import Path

import pytest

from sonde.profile import machine
from sonde.profile.document import Machine


def test_a_machine_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def measure() -> Machine:
        measured.append(1)
        return Machine("p", 1, {"float32": 2.0}, 3.0)

    monkeypatch.setattr(machine, "measure", measure)
    file = tmp_path / "cache" / "machine.json"
    first = machine.this_machine(file)
    assert machine.this_machine(file) == first
    assert len(measured) == 1
    file.write_text("{broken")
    assert machine.this_machine(file) == first
    assert len(measured) == 2


def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "measure", lambda: Machine("p", 1, {"float32": 2.0}, 3.0))
    (tmp_path / "file").write_text("")
    assert machine.this_machine(tmp_path / "file" / "machine.json").bytes_per_second == 3.0


def test_this_machine_computes_and_copies_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_BUDGET_SECONDS", 0.01)
    found = machine.measure()
    assert found.flops["float32"] > 1e8
    assert found.bytes_per_second > 1e8
    assert set(found.flops) == {"float32", "float64", "bfloat16"}


def test_the_cache_is_where_caches_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert machine.cache_file() == tmp_path / "sonde" / "machine.json"
