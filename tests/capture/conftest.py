"""Fixtures of the tests of configurations."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.capture.settings import Load, document

from sonde.capture.config import CaptureConfig, load_config
from sonde.core.errors import ConfigError


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Writes ``dump.json`` with these common settings and loads it; other sections by name."""
    monkeypatch.chdir(tmp_path)

    def write_and_load(
        *,
        e2e: dict[str, Any] | None = None,
        older: dict[str, Any] | None = None,
        environ: dict[str, str] | None = None,
        **common: Any,
    ) -> CaptureConfig:
        content = document(tmp_path, **common)
        if e2e is not None:
            content["e2e_dump_settings"] = e2e
        if older is not None:
            content["async_dump_settings"] = older
        Path("dump.json").write_text(json.dumps(content))
        return load_config("dump.json", environ or {})

    return write_and_load


@pytest.fixture
def refuse(load: Load) -> Callable[..., list[str]]:
    """The problems of a file that is refused, a line each."""

    def load_and_fail(**settings: Any) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(**settings)
        return str(caught.value).splitlines()

    return load_and_fail
