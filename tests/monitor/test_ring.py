"""The file of signals: what is written is read, also after a kill in the middle of a row."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sonde
from sonde.core.errors import SondeError
from sonde.monitor.reading import read_ring, read_signals
from sonde.monitor.ring import SignalRing, ring_path
from sonde.monitor.ring_format import ROWS, SignalsError
from sonde.monitor.signals import Signals

GOLDEN = Path(__file__).parents[1] / "golden" / "files" / "signals.rank_2.ring"


def _ring(tmp_path: Path, **options: int) -> SignalRing:
    return SignalRing(ring_path(tmp_path, 0), 0, **options)


def _signals(step: int, **values: float) -> Signals:
    found = Signals(step, time=1000.0 + step, **values)  # type: ignore[arg-type]
    found.batch_hash = 2**63 + step
    return found


def test_signals_are_read_as_they_were_written(tmp_path: Path) -> None:
    ring = _ring(tmp_path)
    ring.know(["fc.weight", "fc.bias"])
    first = _signals(5, loss=1.5, grad_norm=math.inf, non_finite_gradients=3)
    first.gradients = np.array([0.25, np.inf], np.float32)
    ring.write(first)
    ring.write(_signals(6, loss=math.nan))

    found = sonde.signals(tmp_path)

    assert found["step"].tolist() == [5, 6]
    assert found["loss"][0] == 1.5
    assert math.isnan(found["loss"][1])
    assert found["grad_norm"][0] == math.inf
    assert found["non_finite_gradients"].tolist() == [3, 0]
    assert found["batch_hash"].tolist() == [2**63 + 5, 2**63 + 6]
    assert found["fc.weight"][0] == 0.25
    assert found.gradients[0].tolist() == [0.25, math.inf]
    assert np.isnan(found.gradients[1]).all()
    assert found.damaged == 0
    ring.close()


def test_the_last_thousand_steps_are_kept_in_order(tmp_path: Path) -> None:
    ring = _ring(tmp_path)
    for step in range(ROWS + 7):
        ring.write(_signals(step))
    found = read_signals(tmp_path)
    assert found["step"].tolist() == list(range(7, ROWS + 7))
    ring.close()


def test_a_step_that_is_written_again_replaces_its_row(tmp_path: Path) -> None:
    ring = _ring(tmp_path)
    signals = _signals(0)
    ring.write(signals)
    signals.update_ratio = 0.5
    ring.write(signals)
    assert read_signals(tmp_path)["update_ratio"].tolist() == [0.5]
    ring.close()


def test_parameters_that_appear_later_get_columns_and_rows_stay(tmp_path: Path) -> None:
    ring = _ring(tmp_path, rows=3)
    assert ring.know(["a"]) == 0
    for step in range(5):
        signals = _signals(step)
        signals.gradients = np.array([step], np.float32)
        ring.write(signals)
    assert ring.know(["b", "a"]) == 1
    found = read_signals(tmp_path)
    assert found.parameters == ("a", "b", "a#2")
    assert found["step"].tolist() == [2, 3, 4]
    assert found["a"].tolist() == [2, 3, 4]
    assert np.isnan(found["b"]).all()
    ring.close()


def test_a_row_that_was_half_written_is_known_and_left_out(tmp_path: Path) -> None:
    ring = _ring(tmp_path)
    for step in range(3):
        ring.write(_signals(step, loss=float(step)))
    ring.close()
    path = ring_path(tmp_path, 0)
    data = bytearray(path.read_bytes())
    width = (len(data) - 4096) // ROWS
    data[4096 + 2 * width + 40] ^= 1
    path.write_bytes(data)
    found = read_signals(tmp_path)
    assert found["step"].tolist() == [0, 1]
    assert found.damaged == 1


_KILLED = """
import sys
from pathlib import Path
from sonde.monitor.ring import SignalRing, ring_path
from sonde.monitor.signals import Signals
ring = SignalRing(ring_path(Path(sys.argv[1]), 0), 0, rows=50)
ring.know([f"p{n}" for n in range(200)])
step = 0
while True:
    ring.write(Signals(step, time=0.0, loss=float(step)))
    if step == 100:
        print("ready", flush=True)
    step += 1
"""


def test_signals_are_whole_after_kill_9(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(tmp_path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    found = read_signals(tmp_path)
    steps = found["step"]
    assert len(steps) + found.damaged == 50
    assert found.damaged <= 1
    assert (np.diff(steps) == 1).all()
    assert found["loss"].tolist() == steps.tolist()


@given(st.data())
def test_a_damaged_file_is_refused_or_read_within_bounds(data: st.DataObject) -> None:
    content = bytearray(GOLDEN.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.integers(0, len(content) - 1))
        content[where] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    with TemporaryDirectory() as directory:
        copy = Path(directory) / GOLDEN.name
        copy.write_bytes(content)
        try:
            found = len(read_ring(copy))
        except SignalsError:
            found = 0
        assert found <= 4


def test_the_file_has_the_documented_bytes() -> None:
    found = read_ring(GOLDEN)
    assert found.rank == 2
    assert found.parameters == ("fc.weight", "fc.bias")
    assert found["step"].tolist() == [2, 3, 4, 5]
    assert found["loss"].tolist() == [2.5, 3.5, 4.5, 5.5]
    assert found["fc.weight"].tolist() == [0.5, 0.75, 1.0, 1.25]
    assert GOLDEN.read_bytes()[:8] == b"SONDESIG"


def test_no_space_on_the_disk_is_an_error_at_once_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        _ring(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("rank", "slug"), [(7, "signals-missing"), (None, "signals-missing")], ids=["rank", "directory"]
)
def test_missing_signals_are_reported_with_what_is_there(
    tmp_path: Path, rank: int | None, slug: str
) -> None:
    if rank is not None:
        _ring(tmp_path).close()
    with pytest.raises(SondeError) as caught:
        sonde.signals(tmp_path, rank)
    assert caught.value.slug == slug


def test_a_pipe_in_place_of_the_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(ring_path(tmp_path, 0))
    with pytest.raises(SignalsError, match="is not a file"):
        read_signals(tmp_path)


def test_columns_go_to_pandas(tmp_path: Path) -> None:
    ring = _ring(tmp_path)
    ring.know(["w"])
    ring.write(_signals(0, loss=1.0))
    ring.close()
    table = sonde.signals(tmp_path)
    if not _has_pandas():
        with pytest.raises(SondeError, match="pip install pandas"):
            table.to_pandas()
        return
    frame = table.to_pandas()
    assert frame["loss"].tolist() == [1.0]
    assert "grad_norm/w" in frame.columns


def _has_pandas() -> bool:
    import importlib.util

    return importlib.util.find_spec("pandas") is not None
