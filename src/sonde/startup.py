"""Makes Sonde's environment variables take effect in a program that is started with ``python``.

The line that ``sonde enable`` writes into ``site-packages`` executes this file when Python starts,
if one of the variables is set. ``sys.path`` may not be complete then, so that nothing of Sonde is
imported before torch is. A process that does not import torch stays as it is.

``import sonde`` calls `say_at_exit_if_unused` where a variable is set.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

TYPE_CHECKING = False  # Type checkers know the name; ``typing`` itself is slow to import.
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
"""Programs that import torch and train in other processes."""


class TorchFinder:
    """Finds torch as Python would, and calls `torch_was_imported` after its import.

    ``directory`` is the current directory when Python started: variables may name files in it.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch":
            return None
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                self._follow(spec.loader)
                return spec
        return None

    def _follow(self, loader: Any) -> None:
        """Have the loader call back. It stays the same object, and is as before after the import:
        ``importlib.resources`` and others use it."""
        execute = getattr(loader, "exec_module", None)
        if execute is None or "exec_module" in getattr(loader, "__dict__", {}):
            return

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            execute(module)
            self.torch_was_imported()

        loader.exec_module = exec_module

    def torch_was_imported(self) -> None:
        """Wait for the first sign of training; a failure of Sonde does not reach the program."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        try:
            if "sonde.cli.main" not in sys.modules:  # a command of Sonde observes by itself
                import_module("sonde.adapters.torch.first_training").wait(self.directory)
        except Exception as error:
            if sys.stderr is not None:
                what = f"{type(error).__name__}: {error}"
                print(f"sonde: the program is not observed: {what} [not-observed]", file=sys.stderr)


def begin() -> None:
    """Wait for the import of torch, unless this process only works for another one."""
    if _is_worker() or any(type(each).__name__ == "TorchFinder" for each in sys.meta_path):
        return
    try:
        directory = os.getcwd()
    except OSError:
        directory = ""
    finder = TorchFinder(directory)
    if "torch" in sys.modules:
        finder.torch_was_imported()
    else:
        sys.meta_path.insert(0, finder)


def _is_worker() -> bool:
    """Whether ``multiprocessing`` started this process, such as a worker of a DataLoader; ranks of
    ``torch.multiprocessing`` are observed by their parent. Or a process that captures did."""
    words = sys.orig_argv
    parent = os.environ.get("SONDE_CAPTURING_PROCESS", "")
    return (
        parent not in ("", str(os.getpid()))
        or "--multiprocessing-fork" in words
        or any(word.startswith("from multiprocessing.") for word in words[1:])
    )


def say_at_exit_if_unused() -> None:
    """When this process ends, say which variables are set without an effect."""
    import atexit

    atexit.register(_say_if_unused, os.getpid())


def _say_if_unused(process: int) -> None:
    from sonde.core import observation_variables as variables

    names = variables.asking(os.environ)
    if (
        not names
        or os.getpid() != process
        or "torch" not in sys.modules
        or "sonde.cli.main" in sys.modules
        or variables.has_captured()
        or variables.is_part_of_capture(os.environ)
        or _is_worker()
        or _is_launcher()
    ):
        return
    reader = sys.modules.get("sonde.adapters.torch.environment")
    if reader is not None and reader.has_begun():
        return
    waiting = sys.modules.get("sonde.adapters.torch.first_training")
    if waiting is not None and waiting.has_waited():
        why = "this process built no module and no optimizer and ran no backward pass"
    else:
        why = (
            "run 'sonde enable' once in this Python environment, or start the program with "
            "'sonde run'"
        )
    from sonde import logs
    from sonde.core.text.problem_line import ProblemLine

    verb = "is" if len(names) == 1 else "are"
    text = f"{', '.join(names)} {verb} set but had no effect: {why}"
    logs.say(ProblemLine(text, slug="variable-unused"))


def _is_launcher() -> bool:
    """Whether this process only starts others: its program is torch's own, or a known launcher."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name.partition(".")[0] in ("torch", "sonde", *_LAUNCHERS):
        return True
    folder = os.path.dirname(getattr(sys.modules["torch"], "__file__", None) or "")
    file = os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    return os.path.basename(file) in _LAUNCHERS or bool(folder and file.startswith(folder + os.sep))


if __name__ == "sonde_startup":
    begin()
