"""The mistakes and failures of a search."""

from __future__ import annotations

from sonde.core.errors import SondeError


class TuneError(SondeError):
    """A search that cannot start, go on, or be read back."""
