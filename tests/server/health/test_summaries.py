"""TensorBoard logs and summaries as the page gets them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.server.serving_in_thread import Server, serving
from torch.utils.tensorboard import SummaryWriter

from sonde.core.errors import SondeError
from sonde.server.health.summaries import LogDirectories
from sonde.summary.index import SummaryIndex
from sonde.wire.queries import PictureQuery, TagQuery


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs")
    for number, name in enumerate(("a", "b")):
        with SummaryWriter(str(path / name)) as writer:
            for step in range(400):
                writer.add_scalar("loss", np.inf if step == 77 else step % 7 + number, step)
            for step in range(3):
                writer.add_histogram("weights", np.arange(10.0) * (step + 1), step)
                writer.add_image("picture", torch.zeros(1, 4, 4), step)
    SummaryIndex(status="finished", lineage={"train": {"optimizer": "SGD", "batch_size": 8}}).write(
        path / "b"
    )
    return path


@pytest.fixture(scope="module")
def logs(runs: Path) -> LogDirectories:
    found = LogDirectories([runs])
    found.listing()
    return found


def test_each_directory_is_a_log_with_its_tags_and_lineage(runs: Path) -> None:
    a, b = LogDirectories([runs]).listing().logs
    assert (a.name, b.name) == (f"{runs.name}/a", f"{runs.name}/b")
    assert (a.scalars, a.histograms, a.images) == (("loss",), ("weights",), ("picture",))
    assert (a.status, b.status, a.last_step) == ("", "finished", 399)
    assert [(each.name, each.value) for each in b.lineage] == [
        ("train optimizer", "SGD"),
        ("train batch_size", "8"),
    ]


def test_a_curve_of_many_steps_keeps_its_extremes_and_what_is_not_finite(
    logs: LogDirectories,
) -> None:
    found = logs.curve(1, TagQuery(tag="loss", points=40))
    values = dict(zip(found.steps, found.values, strict=True))
    assert len(values) < 80
    assert values[77] == "inf"
    assert {min(v for v in values.values() if v != "inf")} == {1.0}


def test_histograms_share_their_edges(logs: LogDirectories) -> None:
    found = logs.histograms(0, TagQuery(tag="weights"))
    assert found.steps == (0, 1, 2)
    assert (found.edges[0], found.edges[-1]) == (0.0, 27.0)
    np.testing.assert_allclose(np.sum(found.counts, axis=1), 10)
    assert np.count_nonzero(found.counts[0]) < np.count_nonzero(found.counts[2])


def test_a_picture_is_that_of_its_step(logs: LogDirectories) -> None:
    found = logs.picture(0, PictureQuery(tag="picture", at=1))
    assert (found.at, found.steps, found.media_type) == (1, (0, 1, 2), "image/png")
    assert b64decode(found.data).startswith(b"\x89PNG")
    assert logs.picture(0, PictureQuery(tag="picture")).at == 2


@pytest.mark.parametrize("kind", ["curve", "histograms", "picture"])
def test_a_tag_or_log_that_is_not_there_is_one_line(logs: LogDirectories, kind: str) -> None:
    query = PictureQuery(tag="no") if kind == "picture" else TagQuery(tag="no")
    with pytest.raises(SondeError, match="no such tag"):
        getattr(logs, kind)(0, query)
    with pytest.raises(SondeError, match="no log 9; there are 2"):
        getattr(logs, kind)(9, query)


def test_a_directory_that_appears_later_is_found(tmp_path: Path) -> None:
    logs = LogDirectories([tmp_path / "later"])
    assert logs.listing().logs == ()
    with SummaryWriter(str(tmp_path / "later")) as writer:
        writer.add_scalar("loss", 1.0, 0)
    assert [log.scalars for log in logs.listing().logs] == [("loss",)]


@pytest.fixture
def served(runs: Path) -> Iterator[Server]:
    with serving(logs=(runs,)) as server:
        yield server


def test_the_routes_answer(served: Server) -> None:
    assert len(served.get("/logs")["logs"]) == 2
    assert served.get("/logs/0/scalar?tag=loss")["steps"][-1] == 399
    assert served.get("/logs/1/histograms?tag=weights")["steps"] == [0, 1, 2]
    assert served.get("/logs/1/picture?tag=picture&at=0")["media_type"] == "image/png"
