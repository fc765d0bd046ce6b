"""Runs a script that trains with MindSpore, with MindSpore's own dump, and reads the result."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sonde.capture.config import CaptureConfig
from sonde.capture.options import mindspore_text
from sonde.cli.mindspore_python import MindSporePython
from sonde.cli.progress import progress_bar
from sonde.core.errors import DumpError
from sonde.core.files.atomic_file import write_whole
from sonde.core.text.number_text import count_text
from sonde.core.text.problem_line import ProblemLine
from sonde.dump.layout import rank_layout
from sonde.dump.reader import Dump
from sonde.dump.sinks.steps import make_room
from sonde.logs import say
from sonde.wire.api import RunHeadline

VARIABLE = "MINDSPORE_DUMP_CONFIG"
_NOTHING = (
    "MindSpore dumped nothing. It dumps in graph mode only "
    "(mindspore.set_context(mode=mindspore.GRAPH_MODE)), without dataset_sink_mode, and only "
    "the chosen steps, ops and devices"
)

_NO_BACKWARD = (
    "the dump has no op of a backward pass. In PyNative mode MindSpore dumps only what it "
    "compiles, such as the optimizer; train with mindspore.set_context(mode=mindspore.GRAPH_MODE)"
)


@dataclass(frozen=True, slots=True)
class MindSporeRun:
    """A script to run; ``config_file`` is the user's own configuration, None where Sonde writes
    one; without ``config`` nothing is dumped. A line about each variable that is ``unused``, and
    ``note``, are printed when it starts."""

    python: MindSporePython
    words: tuple[str, ...]
    config: CaptureConfig | None
    config_file: Path | None
    note: str | None
    unused: Sequence[str] = ()

    def execute(self) -> BaseException | None:
        """Run the script to its end; SystemExit with its exit code, unless that is 0."""
        for line in (*self.unused, *filter(None, (self.note,))):
            say(line)
        with dump_environment(self.config, self.config_file) as environment:
            code = _run([self.python.executable, *self.words], environment)
        if self.config is not None:
            report_dump(self.config.path)
        return SystemExit(code) if code else None


@contextmanager
def dump_environment(
    config: CaptureConfig | None, config_file: Path | None = None
) -> Iterator[Mapping[str, str]]:
    """The environment in which MindSpore dumps as ``config`` says, to an empty directory."""
    environment = {name: text for name, text in os.environ.items() if name != VARIABLE}
    if config is None:
        yield environment
        return
    if config.path.is_dir():
        for rank in sorted(config.path.glob("rank_[0-9]*")):
            if rank.name.removeprefix("rank_").isdigit():
                number = int(rank.name.removeprefix("rank_"))
                make_room(rank_layout(config.path, number), say)
    with tempfile.TemporaryDirectory(prefix="sonde-mindspore-") as place:
        file = config_file
        if file is None:
            file = Path(place) / "data_dump.json"
            write_whole(file, mindspore_text(config))
        yield environment | {VARIABLE: str(file.absolute())}


def _run(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """The exit code of a command, 128 plus the number of a signal that ended it.

    Ctrl-C reaches the command as well; its end is waited for.
    """
    process = subprocess.Popen(words, env=dict(environment))
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:
            continue
    return 128 - code if code < 0 else code


def report_dump(path: Path) -> None:
    """Say what was dumped, and where NaN or Inf come from."""
    try:
        dump = Dump(path)
        steps = dump.steps()
    except DumpError:
        steps = ()
    if not steps:
        say(ProblemLine(_NOTHING, slug="mindspore-nothing"))
        return
    tensors = sum(len(dump.items(each)) for each in dump.step_dirs())
    say(
        f"MindSpore dumped {count_text(tensors, 'tensor')} of "
        f"{count_text(len(steps), 'step')} to {path}; view them: sonde view {path}"
    )
    if not any(op.phase == "backward" for graph in dump.graphs() for op in graph.ops):
        say(ProblemLine(_NO_BACKWARD, slug="mindspore-part"))
    found = first_bad(path)
    say("no NaN or Inf that is a fault in the dump" if found is None else found.text)


def first_bad(path: Path) -> RunHeadline | None:
    """The sentence about the first NaN or Inf of a dump that are a fault."""
    from sonde.server.dumps.check import check_dump
    from sonde.server.headlines import headline_of_hits
    from sonde.wire.shapes import ConditionSpec
    from sonde.wire.watchpoints import WatchpointDraft

    drafts = [WatchpointDraft("", (ConditionSpec("tensor_overflow"),))]
    with progress_bar("checking") as show:
        found = check_dump(path, drafts, lambda done, total: show("tensors", done, total))
    return headline_of_hits(found.in_order())
