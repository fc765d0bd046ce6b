"""The errors of captured steps."""

from __future__ import annotations

from sonde.core.errors import SondeError


class ReplayError(SondeError):
    """A captured step that is missing, damaged, or cannot be executed again."""
