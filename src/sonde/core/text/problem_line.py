"""A line for the user about a problem, which has a name: a heading of ``docs/messages.md``."""

from __future__ import annotations

from sonde.core.errors import SondeError


class ProblemLine(str):
    """``text [slug]``; ``slug`` is the name of the problem.

    `sonde.logs` writes it to the log as a warning, and every other line as a notice. A string, so
    that it goes wherever a line goes; a string that is made from it is no ProblemLine any more.
    """

    __slots__ = ("slug",)

    slug: str

    def __new__(cls, text: str, *, slug: str) -> ProblemLine:
        return cls._made(f"{text} [{slug}]", slug)

    @classmethod
    def about(cls, error: SondeError, before: str = "") -> ProblemLine:
        """The line about an error, after the text ``before``."""
        return cls._made(f"{before}{error}", error.slug)

    @classmethod
    def _made(cls, line: str, slug: str) -> ProblemLine:
        made = super().__new__(cls, line)
        made.slug = slug
        return made

    def with_start(self, text: str, *, instead_of: str = "") -> ProblemLine:
        """The same line with ``text`` before it, in place of ``instead_of``."""
        return self._made(f"{text}{self.removeprefix(instead_of)}", self.slug)
