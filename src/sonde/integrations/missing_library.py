"""The error of an integration whose library is not installed."""

from __future__ import annotations

from sonde.core.errors import UsageError


class MissingLibraryError(UsageError, ImportError):
    """The library of an integration is not installed; an ImportError for programs that try it."""

    def __init__(self, library: str, extra: str, error: ImportError) -> None:
        # A library that is there, and cannot import one of its own, says why.
        absent = error.name is None or error.name.split(".")[0] == library.replace("-", "_")
        why = "is not installed" if absent else f"cannot be imported ({error})"
        super().__init__(
            f"{library} {why}: pip install 'sonde[{extra}]'",
            slug="extra-missing",
        )
