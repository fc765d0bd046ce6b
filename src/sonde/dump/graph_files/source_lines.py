"""Source lines in graph files: ``# In file path(26)/        x = self.conv1(x)/``.

Three ways to write them are read: ``path(26)/code/`` (ours, and MindSpore before 2.3),
``path:26/code/`` (older still) and ``path:26, 32~42/code/`` with columns (since 2.3), where
``path:27~33, 4~26/    def construct(self, x):/`` names the function of the line inside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sonde.core.graph import Source

MARK = "# In file "
_MAX_LINE = 10_000
_WITH_COLUMNS = re.compile(r"(.+?):([0-9]{1,9})(?:~([0-9]{1,9}))?, [0-9]+~[0-9]+/(.*)/")
_IN_BRACKETS = re.compile(r"(.+?)\(([0-9]{1,9})\)/(.*)/(?:#.*)?")
_AFTER_COLON = re.compile(r"(.+?):([0-9]{1,9})/(.*)/(?:#.*)?")
_DEFINITION = re.compile(r"\s*(?:async\s+)?def\s+(\w+)")
_BLOCK = re.compile(r"\s*(?:if|elif|else|for|while|with|try|class|async)\b")
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/mindspore/(?:nn|ops|train|common|parallel)/")


@dataclass(frozen=True, slots=True)
class _Frame:
    source: Source
    spans_lines: bool
    has_columns: bool


def source_text(source: Source) -> str:
    """One source line in the form of graph files, without indent and line end."""
    code = source.code.replace("\n", " ").replace("\r", " ")
    return f"{MARK}{source.file}({source.line})/{code}/"


def read_ir_sources(lines: Iterable[str]) -> tuple[Source, ...]:
    """The source lines of one op of an ``.ir`` file, innermost first.

    Files since MindSpore 2.3 (those with columns) begin with the outermost line, others with the
    innermost.
    """
    frames = _frames(lines)
    if any(frame.has_columns for frame in frames):
        frames.reverse()
    return _sources(frames)


def read_pb_sources(text: str) -> tuple[Source, ...]:
    """The source lines of one op of a ``.pb`` file, which always begins with the innermost."""
    return _sources(_frames(text.splitlines()))


def users_own(sources: tuple[Source, ...]) -> tuple[Source, ...]:
    """The sources outside installed libraries; all of them if there are no others."""
    own = tuple(source for source in sources if not _LIBRARY.search(source.file))
    return own or sources


def _frames(lines: Iterable[str]) -> list[_Frame]:
    return [frame for line in lines if (frame := _parse(line)) is not None]


def _parse(line: str) -> _Frame | None:
    text = line.strip()
    if not text.startswith(MARK) or len(text) > _MAX_LINE:
        return None
    text = text[len(MARK) :]
    if match := _WITH_COLUMNS.fullmatch(text):
        source = Source(match[1], int(match[2]), "", match[4])
        return _Frame(source, match[3] is not None, has_columns=True)
    if match := _IN_BRACKETS.fullmatch(text) or _AFTER_COLON.fullmatch(text):
        return _Frame(Source(match[1], int(match[2]), "", match[3]), False, has_columns=False)
    return None


def _sources(frames: list[_Frame]) -> tuple[Source, ...]:
    """Frames, innermost first, to sources.

    A definition gives its name to the line inside it; the first line of a block is skipped; the
    same line in two consecutive frames (two columns of one line) counts once.
    """
    found: list[Source] = []
    for frame in frames:
        source = frame.source
        definition = _DEFINITION.match(source.code) if frame.spans_lines else None
        if definition is not None:
            if found and found[-1].file == source.file and not found[-1].function:
                inner = found[-1]
                found[-1] = Source(inner.file, inner.line, definition[1], inner.code)
        elif frame.spans_lines and _BLOCK.match(source.code):
            continue
        elif not found or (found[-1].file, found[-1].line) != (source.file, source.line):
            found.append(source)
    return tuple(found)
