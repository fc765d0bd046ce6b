"""The magics ``%%sonde`` and ``%sonde_page``."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError as CellUsageError
from IPython.core.magic import (
    Magics,
    cell_magic,
    line_magic,
    magics_class,
    no_var_expand,
    output_can_be_silenced,
)
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

import sonde
from sonde.capture.config import CaptureConfig
from sonde.capture.options import DEFAULT_DIRECTORY, config_from_options
from sonde.core.errors import SondeError
from sonde.core.text.problem_line import ProblemLine
from sonde.dump.reader import Dump
from sonde.integrations.notebook.cell_report import CellReport
from sonde.integrations.notebook.cell_run import run_body
from sonde.integrations.notebook.page_frame import open_page
from sonde.integrations.observed_training import close_observation
from sonde.logs.lines import collected_lines

if TYPE_CHECKING:
    from sonde.adapters.torch.diagnosis.session import TrainingDiagnosis


@magics_class
class SondeMagics(Magics):  # type: ignore[misc]
    """What ``%load_ext sonde`` adds to a notebook."""

    @magic_arguments()
    @argument("--overflow", action="store_true", help="Watch every op for NaN and Inf.")
    @argument("--diagnose", action="store_true", help="Say why the training fails.")
    @argument("--stats", action="store_true", help="Dump statistics of every op.")
    @argument("--dump-to", metavar="DIR", help="Dump to DIR; else to a directory that is removed.")
    @argument("--dump-steps", metavar="STEPS", help="Dump only these steps: '0|5-8'.")
    @argument("--dump-ops", metavar="PATTERN", action="append", help="Dump only these ops.")
    @argument("--ignore", metavar="KIND", action="append", help="Do not report this kind.")
    @argument("--name", help="A variable for the report, which has .findings and .dump.")
    @no_var_expand
    @output_can_be_silenced
    @cell_magic("sonde")
    def observe_cell(self, words: str, body: str) -> Any:
        """Observe the training of this cell, and list what was found.

        Without options: --overflow --diagnose. The results of the cell are the same, bit for bit.
        """
        __tracebackhide__ = True
        given = parse_argstring(self.observe_cell, words)
        if given.name is not None and not given.name.isidentifier():
            raise CellUsageError(f"--name {given.name!r} is not the name of a variable")
        with _shown_as_one_line():
            cell = _ObservedCell(given)
        try:
            return run_body(self.shell, body)
        except BaseException as error:
            cell.error = error
            raise
        finally:
            report = cell.end()
            if given.name is not None:
                self.shell.user_ns[given.name] = report
            display(report)

    @magic_arguments()
    @argument("directory", nargs="?", default=DEFAULT_DIRECTORY, help="A dump.")
    @argument("--host", default="localhost", help="The host in the notebook's own address.")
    @argument("--height", type=int, default=720, help="The height of the frame in pixels.")
    @line_magic("sonde_page")
    def show_page(self, words: str) -> None:
        """Show a dump on Sonde's page, in a frame of the notebook."""
        given = parse_argstring(self.show_page, words)
        with _shown_as_one_line():
            display(open_page(given.directory, given.host, given.height))


class _ObservedCell:
    """The observation of one cell, from its construction to ``end``."""

    def __init__(self, given: Namespace) -> None:
        self.error: BaseException | None = None
        self._diagnosis: TrainingDiagnosis | None = None
        kinds = (given.overflow, given.stats, given.dump_to, given.dump_steps, given.dump_ops)
        is_plain = not any(kinds) and not given.diagnose
        self._config = _config(given, overflow=given.overflow or is_plain)
        with ExitStack() as entered:
            self._lines = entered.enter_context(collected_lines())
            if self._config is not None:
                entered.enter_context(sonde.capture(self._config))
            if given.diagnose or is_plain:
                ignored = given.ignore or ()
                self._diagnosis = entered.enter_context(
                    sonde.diagnose(ignore=ignored, prints=False)
                )
            self._held = entered.pop_all()

    def end(self) -> CellReport:
        """Leave the observation, and return what was found. Never raises."""
        __tracebackhide__ = True
        close_observation(self._held, self.error)
        report = CellReport(lines=self._lines)
        if self._diagnosis is not None:
            report.steps = self._diagnosis.steps
            report.findings = tuple(self._diagnosis.findings)
        if self._config is not None:
            try:
                report.dump = Dump(self._config.path)
                report.findings = report.dump.findings()
            except SondeError as error:
                report.lines.append(ProblemLine.about(error))
        return report


def _config(given: Namespace, *, overflow: bool) -> CaptureConfig | None:
    """The dump that the options ask for; None: they ask for a diagnosis alone."""
    asked = (overflow, given.stats, given.dump_to, given.dump_steps, given.dump_ops)
    if not any(asked):
        return None
    return config_from_options(
        given.dump_to or _temporary_directory(),
        os.environ,
        steps=given.dump_steps or "all",
        ops=given.dump_ops or (),
        stats=given.stats,
        overflow=overflow,
    )


def _temporary_directory() -> Path:
    """A directory that is removed when the kernel ends."""
    made = Path(tempfile.mkdtemp(prefix="sonde_cell_"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@contextmanager
def _shown_as_one_line() -> Iterator[None]:
    """Show a wrong use as one line, as IPython shows its own."""
    try:
        yield
    except SondeError as error:
        raise CellUsageError(str(error)) from None
