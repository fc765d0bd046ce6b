"""The files a profile leaves."""

from __future__ import annotations

from pathlib import Path

from sonde.core.errors import UsageError
from sonde.profile.analyse.timings import Timings
from sonde.profile.document import FILE_NAME, Profile, save_profile
from sonde.profile.report.chrome import write_trace
from sonde.report import page

PAGE_NAME = "report.html"
TRACE_NAME = "trace.json"


def rank_directory(directory: Path, rank: int, ranks: int) -> Path:
    """Where a rank's files are: the directory itself, or one in it for each of several ranks."""
    return directory / f"rank_{rank}" if ranks > 1 else directory


def make_directory(directory: Path) -> None:
    """Make it now, so that a mistake is known before the program has run."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--to {directory}: cannot be made: {error.strerror}", slug="profile-directory"
        ) from None


def profile_page(profile: Profile) -> str:
    """The report as one self-contained HTML page."""
    return page("profile", f"{' '.join(profile.program)}: profile", profile)


def write_profile(profile: Profile, directory: Path) -> list[str]:
    """Write the profile and the page; lines that tell where they are."""
    save_profile(profile, directory / FILE_NAME)
    (directory / PAGE_NAME).write_text(profile_page(profile), encoding="utf-8")
    trace = directory / TRACE_NAME
    lines = [f"report: {directory / PAGE_NAME}"]
    if trace.exists():
        lines.append(f"trace:  {trace} (open in https://ui.perfetto.dev or chrome://tracing)")
    lines.append(f"json:   {directory / FILE_NAME}")
    return lines


def write_all(profile: Profile, timings: Timings, directory: Path) -> list[str]:
    """Write everything; lines that tell where it is."""
    write_trace(timings, profile.rank, directory / TRACE_NAME)
    return write_profile(profile, directory)
