"""Every error a user can meet.

An error says what is wrong, where, and what to do, and ends with a slug in brackets that is a
heading of ``docs/messages.md``.
"""

from __future__ import annotations

from collections.abc import Sequence


class SondeError(Exception):
    """A mistake or a failure a person can act on; ``str()`` is the one line to show them."""

    def __init__(self, message: str, *, slug: str) -> None:
        super().__init__(f"{message} [{slug}]")
        self.message = message
        self.slug = slug


class ConfigError(SondeError):
    """One or more problems of one configuration, all found in one go."""

    def __init__(self, problems: Sequence[SondeError]) -> None:
        if not problems:
            raise ValueError("a ConfigError needs at least one problem")
        self.problems = tuple(problems)
        Exception.__init__(self, "\n".join(str(problem) for problem in problems))
        self.message = "\n".join(problem.message for problem in problems)
        self.slug = problems[0].slug


class UsageError(SondeError):
    """A command or a call that cannot be carried out as it was written."""


class DumpError(SondeError):
    """A dump on disk that is missing, damaged or not a dump."""


class CaptureError(SondeError):
    """Observation that cannot start, or had to stop."""
