"""The errors that users see.

An error says what is wrong, where, and what to do, and ends with a slug in brackets that is a
heading of ``docs/messages.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class SondeError(Exception):
    """A mistake or a failure that the user can act on; ``str()`` is the line to show."""

    def __init__(self, message: str, *, slug: str) -> None:
        super().__init__(f"{message} [{slug}]")
        self.message = message
        self.slug = slug

    def __reduce__(self) -> tuple[Any, ...]:
        """The error as another process gets it: with its fields, whatever its arguments were."""
        return _copied, (type(self), self.args, dict(self.__dict__))


def _copied(kind: type[SondeError], args: tuple[Any, ...], state: dict[str, Any]) -> SondeError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class ConfigError(SondeError):
    """All problems of one configuration."""

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
    """Capture that cannot start, or had to stop."""


TESTED_TORCH = "2.13"
"""The version of torch that Sonde's tests run with."""


class TorchVersionError(CaptureError):
    """The installed version of torch lacks something that Sonde needs."""

    def __init__(self, version: str, lacking: str) -> None:
        super().__init__(
            f"torch {version} lacks {lacking}; Sonde is tested with torch {TESTED_TORCH}",
            slug="torch-version",
        )
