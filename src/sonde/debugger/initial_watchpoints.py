"""The watchpoints a training begins with: of a file, and the recommended ones."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from sonde.core.errors import SondeError, UsageError
from sonde.watch.conditions import RECOMMENDED, Recommended, parse_condition
from sonde.watch.watchpoint import Pattern
from sonde.wire.api import WatchpointDraft, WatchpointFile
from sonde.wire.shapes import ConditionSpec, WatchpointSpec


def starting_set(files: tuple[str, ...], *, recommended: bool) -> tuple[WatchpointSpec, ...]:
    """Numbered from 1 on; UsageError for a file that cannot be used."""
    drafts = [draft for file in files for draft in read_drafts(Path(file))]
    if recommended:
        drafts += [recommended_draft(each) for each in RECOMMENDED]
    return tuple(
        WatchpointSpec(
            number,
            draft.name,
            draft.conditions,
            draft.ops,
            draft.join,
            draft.enabled,
            draft.break_after,
            draft.ranks,
        )
        for number, draft in enumerate(drafts, 1)
    )


def read_drafts(path: Path) -> tuple[WatchpointDraft, ...]:
    """The watchpoints of a file that the page or ``sonde ctl`` saved."""
    try:
        drafts = msgspec.json.decode(path.read_bytes(), type=WatchpointFile).watchpoints
        for draft in drafts:
            for condition in draft.conditions:
                parse_condition(condition.id, condition.parameters, condition.expression)
            for op in draft.ops:
                Pattern.parse(op)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", slug="watchpoint-file") from None
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{path}: not a watchpoint file: {error}", slug="watchpoint-file"
        ) from None
    except SondeError as error:
        raise UsageError(f"{path}: {error.message}", slug="watchpoint-file") from None
    return drafts


def recommended_draft(recommended: Recommended) -> WatchpointDraft:
    """The watchpoint as it would be set by hand."""
    condition = ConditionSpec(recommended.condition, dict(recommended.parameters))
    ops: tuple[str, ...] = ()
    if recommended.functions:
        names = "|".join(map(re.escape, recommended.functions))
        ops = (rf"name-regex((?i)(.*/)?({names})_?(-op\d+)?|.*-({names})/[^/]+)",)
    elif recommended.names:
        ops = (f"name-regex({recommended.names})",)
    return WatchpointDraft(recommended.name, (condition,), ops)
