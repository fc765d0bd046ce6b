"""The errors of summaries."""

from __future__ import annotations

from sonde.core.errors import SondeError


class SummaryError(SondeError):
    """A summary that cannot be written or read."""


class SummaryOptionError(SummaryError, ValueError):
    """An option of the collector that cannot be used."""
