"""Runs programs, bare and under ``sonde``, in processes forked from one that has imported torch.

Started as ``python -m tests.programs.forking MODULE...``: the modules to import first. Each line of
standard input is a JSON object with ``words`` (the command line of ``python``), ``directory``, and
``environments``: one process for each, all at the same time. Standard output and error of process 0
go to the files ``0.stdout`` and ``0.stderr`` in the directory. The exit codes are printed as a JSON
list.
"""

import atexit
import importlib
import json
import os
import runpy
import sys
import threading
import traceback
from pathlib import Path

from sonde.cli.main import main


def become(words: list[str]) -> None:
    """Run ``-m sonde`` with the arguments that follow, or a script."""
    if words[:2] == ["-m", "sonde"]:
        sys.argv[:] = words[1:]
        sys.exit(main(words[2:]))
    sys.argv[:] = words
    sys.path.insert(0, str(Path(words[0]).parent))
    runpy.run_path(words[0], run_name="__main__")


def run(number: int, directory: Path, words: list[str], environment: dict[str, str]) -> int:
    os.chdir(directory)
    os.environ.update(environment)
    for file, name in ((1, "stdout"), (2, "stderr")):
        opened = os.open(directory / f"{number}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, file)
    code: object = 0
    try:
        become(words)
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    return code if isinstance(code, int) else int(code is not None)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        importlib.import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads cannot be forked"
    for line in sys.stdin:
        request = json.loads(line)
        children = []
        for number, environment in enumerate(request["environments"]):
            child = os.fork()
            if child == 0:
                os._exit(run(number, Path(request["directory"]), request["words"], environment))
            children.append(child)
        ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(ends), flush=True)
