"""The native matcher is used only where it was built from the same sources."""

from __future__ import annotations

import pytest

from sonde.adapters.torch.eager import matcher


def test_a_matcher_built_from_other_sources_is_not_used_and_that_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("sonde.adapters.torch.eager._match")
    assert matcher.load() is not None
    monkeypatch.setattr(matcher, "INTERFACE", matcher.INTERFACE + 1)
    matcher._built.cache_clear()
    try:
        assert matcher.load() is None
        assert "was built from other sources" in caplog.text
    finally:
        matcher._built.cache_clear()
