"""Event files as the page reads them, against TensorBoard's own reader."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from torch.utils.tensorboard import SummaryWriter

from sonde.core.files.event_records import event_files
from sonde.summary.errors import SummaryError
from sonde.summary.event_index import EventIndex, find_logs

EVERYTHING = {"scalars": 0, "histograms": 0, "images": 0, "tensors": 0}
VALUES = np.random.default_rng(3).normal(size=1000)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log as torch.utils.tensorboard writes it."""
    path = tmp_path_factory.mktemp("log")
    with SummaryWriter(str(path)) as writer:
        for step in range(0, 30, 3):
            writer.add_scalar("train/loss", np.nan if step == 9 else 1 / (step + 1), step)
            writer.add_histogram("weights", VALUES * (step + 1), step)
            writer.add_image("picture", torch.full((3, 4, 5), step / 30), step)
        writer.add_text("note", "a text")
    return path


def test_everything_is_what_tensorboard_reads(log: Path) -> None:
    index = EventIndex(log)
    index.refresh()
    truth = EventAccumulator(str(log), size_guidance=EVERYTHING).Reload()
    steps, values = index.scalars["train/loss"].in_order()
    assert steps.tolist() == [event.step for event in truth.Scalars("train/loss")]
    np.testing.assert_array_equal(values, [event.value for event in truth.Scalars("train/loss")])
    for at, event in enumerate(truth.Histograms("weights")):
        found, given = index.histogram("weights", at), event.histogram_value
        assert index.histograms["weights"][at].step == event.step
        assert found.counts.tolist() == list(given.bucket)
        limits = np.clip(given.bucket_limit, given.min, given.max)
        np.testing.assert_array_equal(found.edges[1:], limits)
    for at, event in enumerate(truth.Images("picture")):
        assert index.picture("picture", at).data == event.encoded_image_string
    assert index.texts == {"note/text_summary": "a text"}


def test_bins_of_other_edges_have_the_counts_that_numpy_finds(log: Path) -> None:
    index = EventIndex(log)
    index.refresh()
    edges = np.linspace(VALUES.min(), VALUES.max(), 11)
    found = index.histogram("weights", 0).rebinned(edges)
    assert found.sum() == pytest.approx(1000)
    # Values are spread evenly inside a bin of the file, which is a tenth of its distance from 0.
    np.testing.assert_allclose(found, np.histogram(VALUES, edges)[0], atol=25)


def test_a_histogram_of_one_value_is_in_one_bin(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_histogram("zeros", np.zeros(7), 0)
    index = EventIndex(tmp_path)
    index.refresh()
    counts = index.histogram("zeros", 0).rebinned(np.linspace(-1, 1, 6))
    assert counts.tolist() == [0, 0, 7, 0, 0]


def test_the_tensors_of_tensorflow_are_read(tmp_path: Path) -> None:
    bins = np.array([[0.0, 1.0, 4.0], [1.0, 2.0, 6.0]])
    stream = io.BytesIO()
    Image.new("RGB", (3, 2), (255, 0, 0)).save(stream, "PNG")
    shape = tensor_shape_pb2.TensorShapeProto(
        dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=size) for size in bins.shape]
    )
    tensors = {
        "loss": tensor_pb2.TensorProto(dtype=1, float_val=[0.5]),
        "spread": tensor_pb2.TensorProto(
            dtype=2, tensor_shape=shape, tensor_content=bins.tobytes()
        ),
        "look": tensor_pb2.TensorProto(dtype=7, string_val=[b"3", b"2", stream.getvalue()]),
    }
    values = [summary_pb2.Summary.Value(tag=tag, tensor=each) for tag, each in tensors.items()]
    writer = EventFileWriter(str(tmp_path))
    writer.add_event(event_pb2.Event(step=4, summary=summary_pb2.Summary(value=values)))
    writer.close()
    index = EventIndex(tmp_path)
    index.refresh()
    assert index.scalars["loss"].values.tolist() == [0.5]
    assert index.histogram("spread", 0).counts.tolist() == [4, 6]
    assert index.histogram("spread", 0).edges.tolist() == [0, 1, 2]
    assert index.picture("look", 0).data == stream.getvalue()
    assert index.picture("look", 0).media_type == "image/png"


def test_a_file_that_grows_is_read_on_and_a_part_of_a_record_is_not(log: Path, tmp_path: Path):
    (whole,) = event_files(log)
    data, growing = whole.read_bytes(), tmp_path / whole.name
    index = EventIndex(tmp_path)
    for size in (0, 5, 100, len(data) // 2, len(data) - 1, len(data)):
        growing.write_bytes(data[:size])
        index.refresh()
    assert index.problems == {}
    assert index.scalars["train/loss"].steps.tolist() == list(range(0, 30, 3))
    assert [each.step for each in index.images["picture"]] == list(range(0, 30, 3))


def test_a_step_that_a_resumed_run_wrote_again_has_its_last_value(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        for step, value in ((0, 1.0), (1, 2.0), (2, 3.0), (1, 5.0), (2, 6.0)):
            writer.add_scalar("loss", value, step)
    index = EventIndex(tmp_path)
    index.refresh()
    steps, values = index.scalars["loss"].in_order()
    assert (steps.tolist(), values.tolist()) == ([0, 1, 2], [1.0, 5.0, 6.0])


def test_a_damaged_file_is_told_and_the_others_are_read(log: Path, tmp_path: Path) -> None:
    data = event_files(log)[0].read_bytes()
    (tmp_path / "events.out.tfevents.1").write_bytes(data)
    (tmp_path / "events.out.tfevents.2").write_bytes(data[:200] + b"\xff" * 40 + data[240:])
    (tmp_path / "events.out.tfevents.3").write_bytes(b"this is not an event file at all")
    index = EventIndex(tmp_path)
    index.refresh()
    assert sorted(index.problems) == ["events.out.tfevents.2", "events.out.tfevents.3"]
    assert "byte" in index.problems["events.out.tfevents.2"]
    assert index.scalars["train/loss"].steps.tolist()[:10] == list(range(0, 30, 3))


def test_a_tag_that_is_not_there_is_one_line(log: Path) -> None:
    index = EventIndex(log)
    with pytest.raises(SummaryError, match="no 1 histograms of 'weights'"):
        index.histogram("weights", 0)


def test_logs_are_found_below_a_directory(log: Path, tmp_path: Path) -> None:
    for name in ("a/run", "b", "empty"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("a/run", "b"):
        (tmp_path / name / "events.out.tfevents.1").write_bytes(b"")
    assert find_logs(tmp_path) == (tmp_path / "a" / "run", tmp_path / "b")
    assert find_logs(tmp_path / "missing") == ()
