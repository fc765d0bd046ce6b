"""The rank side of the debugger: watchpoints, control, answers to questions."""

from __future__ import annotations

from sonde.debugger.terminated import Terminated

__all__ = ["Terminated"]
