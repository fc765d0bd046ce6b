"""The files of a profile."""

from __future__ import annotations

from pathlib import Path

from sonde.core.errors import UsageError
from sonde.profile.document import FILE_NAME, Profile, save_profile
from sonde.report import page
from sonde.report.links import write_report

PAGE_NAME = "report.html"
TRACE_NAME = "trace.json"


def rank_directory(directory: Path, rank: int, ranks: int) -> Path:
    """The directory itself, or, with several ranks, a directory inside it for each."""
    return directory / f"rank_{rank}" if ranks > 1 else directory


def make_directory(directory: Path) -> None:
    """Create the directory before the program runs, so that an error is reported at once."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--to {directory} cannot be created: {error.strerror}", slug="profile-directory"
        ) from None


def profile_page(profile: Profile) -> str:
    """The report as one self-contained HTML page."""
    return page("profile", f"{' '.join(profile.program)}: profile", profile)


def write_profile(profile: Profile, directory: Path) -> list[str]:
    """Write the profile and the page; returns lines that name the files, with the trace's."""
    save_profile(profile, directory / FILE_NAME)
    write_report(directory / PAGE_NAME, profile_page(profile))
    return [
        f"report: {directory / PAGE_NAME}",
        f"trace:  {directory / TRACE_NAME} (open in https://ui.perfetto.dev or chrome://tracing)",
        f"json:   {directory / FILE_NAME}",
    ]
