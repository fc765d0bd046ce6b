"""The file in ``site-packages`` by which Python executes ``sonde/startup.py`` when it starts.

Python executes the lines of ``.pth`` files that begin with ``import``. The line looks at Sonde's
variables and does nothing, not even an import, if none of them is set.
"""

from __future__ import annotations

import os
import site
import subprocess
import sys
import sysconfig
from pathlib import Path

from sonde import startup
from sonde.core.errors import UsageError
from sonde.core.files.atomic_file import write_whole
from sonde.core.observation_variables import CAPTURING, GUARD, VARIABLES

NAME = "sonde_startup.pth"
_CHECK = (
    "import sys; print(sum(type(each).__name__ == 'TorchFinder' for each in sys.meta_path), end='')"
)


def line() -> str:
    """The content of the file. ASCII only: Python reads it with the encoding of the machine.

    Parsing the line takes most of its time, by the number of its words; so it has few of them, and
    what is to be done if a variable is set is a text. ``posix.environ`` is a plain dict, faster
    than ``os.environ``. The text is executed among the local variables of a function of ``site``,
    none of which it assigns.
    """
    path = os.path.abspath(startup.__file__)
    run = (
        f"import os\np={path!a}\n"
        "if os.path.exists(p):\n"
        " with open(p) as o:c=compile(o.read(),p,'exec')\n"
        " exec(c,{'__name__':'sonde_startup'})"
    )
    names = " ".join(VARIABLES).encode()
    return f"import posix as p;p.environ.keys()&{names!r}.split()and exec({run!a})\n"


def directories() -> list[Path]:
    """The directories of this Python whose ``.pth`` files are executed; the one for all users of
    this environment first."""
    found = [sysconfig.get_path("purelib"), *site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        found.append(site.getusersitepackages())
    return [Path(each) for each in dict.fromkeys(map(os.path.abspath, found))]


def present() -> list[Path]:
    """The files that were written and are there now."""
    return [path for path in (each / NAME for each in directories()) if os.path.lexists(path)]


def is_current(path: Path) -> bool:
    """Whether the file is the one that this version of Sonde writes."""
    try:
        return path.read_text("utf-8", "replace") == line()
    except OSError:
        return False


def write() -> Path:
    """Write the file to the first directory that can be written to; UsageError if there is none."""
    user = site.getusersitepackages() if site.ENABLE_USER_SITE else None
    problems = []
    for directory in directories():
        try:
            if os.fspath(directory) == user:
                directory.mkdir(parents=True, exist_ok=True)
            write_whole(directory / NAME, line())
            return directory / NAME
        except OSError as error:
            problems.append(f"{directory}: {error.strerror}")
    raise UsageError(
        f"this Python environment cannot be written to ({'; '.join(problems)}); use an environment "
        "of your own (python -m venv), or start programs with 'sonde run'",
        slug="enable-not-writable",
    )


def remove() -> list[Path]:
    """Remove the files; UsageError if one cannot be removed."""
    found = present()
    for path in found:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be removed: {error.strerror}", slug="enable-not-writable"
            ) from None
    return found


def has_effect() -> bool:
    """Whether a new Python of this environment executes the file."""
    environ = {name: text for name, text in os.environ.items() if name != CAPTURING}
    done = subprocess.run(
        [sys.executable, "-c", _CHECK],
        env={**environ, GUARD: "1"},
        capture_output=True,
        text=True,
    )
    return done.stdout == "1"
