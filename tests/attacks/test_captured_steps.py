"""Code from a captured step is executed only if this user wrote the step."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sonde.replay.errors import ReplayError
from sonde.replay.ownership import refuse_foreign


def check(path: Path, *, trust: bool = False) -> None:
    with path.open("rb") as stream:
        refuse_foreign(path, stream.fileno(), trust=trust)


def test_a_file_of_this_user_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "modules.pickle"
    path.write_bytes(b"")
    path.chmod(0o664)
    check(path)


def test_a_file_that_every_user_can_write_needs_trust(tmp_path: Path) -> None:
    path = tmp_path / "modules.pickle"
    path.write_bytes(b"")
    path.chmod(0o666)
    with pytest.raises(ReplayError, match="every user") as error:
        check(path)
    assert error.value.slug == "step-untrusted"
    check(path, trust=True)


def test_a_file_of_another_user_needs_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "modules.pickle"
    path.write_bytes(b"")
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(ReplayError, match="another user"):
        check(path)
    check(path, trust=True)
