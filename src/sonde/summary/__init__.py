"""Summaries of a run for TensorBoard: scalars, histograms, pictures, graph, lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sonde.summary.listing import SummaryListing, is_summary, read_summary

if TYPE_CHECKING:
    from sonde.summary.collector import SummaryCollector

__all__ = ["SummaryCollector", "SummaryListing", "is_summary", "read_summary"]


def __getattr__(name: str) -> Any:
    """The collector needs torch and tensorboard; reading a summary needs neither."""
    if name == "SummaryCollector":
        from sonde.summary.collector import SummaryCollector

        return SummaryCollector
    from sonde.core.text.missing_name import missing_name

    raise missing_name(__name__, name, __all__)
