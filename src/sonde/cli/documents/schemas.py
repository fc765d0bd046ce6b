"""The schema of what each command prints with ``--json``, and the files in ``docs`` made from it.

``python -m sonde.cli.documents.schemas docs`` writes ``docs/schemas/*.json`` and the table of
``docs/json.md``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import msgspec

from sonde.cli.documents.comparisons import (
    CheckpointCheckDocument,
    CheckpointConvertDocument,
    CheckpointDiffDocument,
    ComparisonDocument,
    LossDocument,
    MatchedParametersDocument,
    ParametersDocument,
)
from sonde.cli.documents.debugger import (
    AddressesDocument,
    DisabledDocument,
    EnabledDocument,
    FoundDocument,
    PageAddressDocument,
    RemovedWatchpointDocument,
    RunsDocument,
    SkillDocument,
    StatusDocument,
    StudyDocument,
    TensorDocument,
)
from sonde.cli.documents.dumps import (
    CheckedDocument,
    ConvertedDocument,
    DumpDocument,
    GuardDocument,
    PrunedDocument,
    SummaryDocument,
    TablesDocument,
    TensorsDocument,
    TrendDocument,
)
from sonde.cli.documents.findings import (
    ErrorDocument,
    FindingsDocument,
    ReplayDocument,
    VerifyDocument,
)
from sonde.cli.documents.programs import (
    CompileCheckDocument,
    RepeatDocument,
    RunDocument,
    TuneCheckDocument,
)
from sonde.profile.analyse.difference import Difference
from sonde.profile.document import Profile
from sonde.wire.api import HitPage, RunView
from sonde.wire.graphs import Level
from sonde.wire.watchpoints import WatchpointAnswer, WatchpointFile, WatchpointList

_CONTROLS: Final = ("continue", "next", "pause", "recheck", "speed", "step", "terminate", "to")

DOCUMENTS: Final[dict[str, tuple[Any, ...]]] = {
    "run": (RunDocument,),
    "show": (
        DumpDocument,
        TensorsDocument,
        TrendDocument,
        GuardDocument,
        SummaryDocument,
        StudyDocument,
        ParametersDocument,
    ),
    "convert": (ConvertedDocument,),
    "compare": (ComparisonDocument,),
    "params": (ParametersDocument, MatchedParametersDocument),
    "ckpt check": (CheckpointCheckDocument,),
    "ckpt convert": (CheckpointConvertDocument,),
    "ckpt diff": (CheckpointDiffDocument,),
    "query": (TablesDocument, list[dict[str, Any]]),
    "dump prune": (PrunedDocument,),
    "ranks": (FindingsDocument,),
    "loss": (LossDocument,),
    "repeat": (RepeatDocument,),
    "compile-check": (CompileCheckDocument,),
    "diagnose": (FindingsDocument,),
    "profile": (Profile, Difference),
    "replay": (ReplayDocument, CompileCheckDocument, AddressesDocument),
    "verify": (VerifyDocument,),
    "debug": (AddressesDocument,),
    "serve": (AddressesDocument,),
    "view": (AddressesDocument, CheckedDocument, list[CheckedDocument]),
    "ctl address": (PageAddressDocument,),
    "ctl graph": (Level,),
    "ctl hits": (HitPage,),
    "ctl status": (RunsDocument,),
    "ctl tensor": (TensorDocument,),
    **{f"ctl {name}": (RunView,) for name in _CONTROLS},
    "ctl watch add": (WatchpointAnswer,),
    "ctl watch list": (WatchpointList,),
    "ctl watch load": (WatchpointList,),
    "ctl watch recommended": (WatchpointList,),
    "ctl watch remove": (RemovedWatchpointDocument,),
    "ctl watch save": (WatchpointFile,),
    "enable": (EnabledDocument,),
    "disable": (DisabledDocument,),
    "status": (StatusDocument,),
    "tune": (StudyDocument, TuneCheckDocument),
    "skill": (SkillDocument,),
    "find": (FoundDocument,),
}
"""The documents of each command. Each may also print an `ErrorDocument`."""

WITHOUT: Final[dict[str, str]] = {
    "mcp": "it speaks JSON-RPC with a coding agent ([agents.md](agents.md))",
}
"""Commands that have no ``--json``, and why."""

_TABLE: Final = "<!-- the table is made by python -m sonde.cli.documents.schemas docs -->\n"
_REFERENCE: Final = "#/$defs/{name}"
_ROWS: Final = "a list of rows, each an object with the columns"


def schema(document: Any) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a document."""
    (found,), components = msgspec.json.schema_components((document,), ref_template=_REFERENCE)
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, **found, "$defs": components}


def files() -> dict[str, str]:
    """The schema files, by name: one for each document that is an object."""
    every = [each for documents in DOCUMENTS.values() for each in documents]
    objects = {each for each in (ErrorDocument, *every) if isinstance(each, type)}
    return {
        f"{each.__name__}.json": json.dumps(schema(each), indent=1) + "\n"
        for each in sorted(objects, key=lambda one: one.__name__)
    }


def table() -> str:
    """The table of ``docs/json.md``."""
    lines = ["| command | prints |", "|---|---|"]
    for name, documents in DOCUMENTS.items():
        lines.append(f"| `sonde {name}` | {', '.join(map(_link, documents))} |")
    lines += [f"| `sonde {name}` | no `--json`: {why} |" for name, why in WITHOUT.items()]
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The text of ``docs/json.md`` with the table after its mark, up to the end of the page."""
    return text.partition(_TABLE)[0] + _TABLE + "\n" + table()


def _link(document: Any) -> str:
    if get_origin(document) is list:
        (item,) = get_args(document)
        return f"a list of {_link(item)}" if isinstance(item, type) else _ROWS
    return f"[{document.__name__}](schemas/{document.__name__}.json)"


def _write(directory: Path) -> None:
    folder = directory / "schemas"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.json"):
        old.unlink()
    for name, text in files().items():
        (folder / name).write_text(text)
    path = directory / "json.md"
    path.write_text(page(path.read_text()))


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
