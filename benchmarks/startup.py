"""What ``sonde enable`` costs the start of Python where none of the variables is set.

    python benchmarks/startup.py [ROUNDS]

Makes an environment of its own, and starts ``python -c pass`` in it, in turns with and without the
file of ``sonde enable``: the medians of the processor time, the median of the differences in each
round, and the same between two series without the file, which is noise. ``-X importtime`` tells
which modules are imported because of the file.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import timeit
import venv
from pathlib import Path

from sonde.cli import site_file
from sonde.core.observation_variables import VARIABLES


def start(python: Path, environ: dict[str, str]) -> float:
    """Seconds of processor time that one start of Python takes."""
    process = os.posix_spawn(python, [str(python), "-c", "pass"], environ)
    _, status, usage = os.wait4(process, 0)
    assert status == 0
    return usage.ru_utime + usage.ru_stime


def imported(python: Path, environ: dict[str, str]) -> list[str]:
    """The modules that Python imports at its start."""
    command = [python, "-X", "importtime", "-c", "pass"]
    done = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
    return [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()[1:]]


def line_alone() -> float:
    """Seconds to compile and execute the line, at best: other programs only make it slower."""
    line = site_file.line()
    return min(timeit.repeat(lambda: exec(line), number=200, repeat=50)) / 200


def main(rounds: int) -> int:
    environ = {name: text for name, text in os.environ.items() if name not in VARIABLES}
    os.environ.clear()
    os.environ.update(environ)
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, symlinks=True, with_pip=False)
        python = Path(folder, "bin", "python")
        (site,) = Path(folder, "lib").glob("python3.*/site-packages")
        file = site / site_file.NAME
        texts = {"enabled": site_file.line(), "another .pth": "import sys\n"}
        names = ("without", *texts, "without, again")
        series: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(rounds):
            for name, times in series.items():
                if name in texts:
                    file.write_text(texts[name])
                times.append(start(python, environ))
                file.unlink(missing_ok=True)
        plain = imported(python, environ)
        file.write_text(site_file.line())
        more = [name for name in imported(python, environ) if name not in plain]
    medians = {name: 1e3 * statistics.median(times) for name, times in series.items()}
    for name, median in medians.items():
        print(f"{name:>15}: {median:.3f} ms")
    for label, name in (
        ("enabled", "enabled"),
        ("any file", "another .pth"),
        ("noise", "without, again"),
    ):
        pairs = zip(series[name], series["without"], strict=True)
        print(
            f"{label:>15}: {1e6 * statistics.median(one - other for one, other in pairs):+.0f} us"
        )
    print(f" the line alone: {1e6 * line_alone():.1f} us")
    print(f"imported besides: {', '.join(more) or 'nothing'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
