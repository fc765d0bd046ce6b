"""A directory without a dump is named for what is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sonde.core.errors import DumpError
from sonde.dump.reader import Dump


@pytest.mark.parametrize(
    ("file", "what"),
    [
        ("run/events.out.tfevents.161.host", "event files of TensorBoard"),
        ("collections/000000000/worker_0_collections.json", "tensors of SageMaker Debugger"),
        ("events/000000000000/000000000000_worker_0.tfevents", "tensors of SageMaker Debugger"),
        ("tfdbg_events.161.host.metadata", "a dump of TensorFlow's debugger"),
        ("npu/rank0/api_stack_dump.pkl", "a dump of ptdbg_ascend, the predecessor of msprobe"),
        ("model.onnx", "a model in ONNX"),
        ("model.pth", "checkpoints or single tensors"),
        ("deep/er/trace.pt.trace.json", "a trace of torch.profiler"),
        ("conv1.npy", "single .npy files"),
        ("model.h5", "HDF5 files"),
        ("step0/dump.json", "a dump of msprobe in a version that Sonde does not know"),
    ],
)
def test_foreign_files_are_named(file: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "place" / file
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    with pytest.raises(DumpError) as caught:
        Dump(tmp_path / "place")
    assert caught.value.slug == "foreign-dump"
    assert f"holds no dump that Sonde reads: this looks like {what}" in str(caught.value)
    assert "which Sonde does not read as a dump" in str(caught.value)


def test_unknown_files_are_not_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(DumpError, match="holds no dump: no rank_0 in it or below"):
        Dump(tmp_path)
