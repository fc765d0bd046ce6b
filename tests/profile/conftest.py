"""Tests that measure real programs are left out unless they are asked for.

They judge times, and times depend on what else the machine does: ``make timing`` runs them, on a
machine that has nothing else to do.
"""

from __future__ import annotations

import os

collect_ignore = (
    []
    if os.environ.get("SONDE_TIMING_TESTS")
    else ["test_cost.py", "test_planted.py", "test_recorder.py", "test_variants.py"]
)
