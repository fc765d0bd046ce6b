"""What ``sonde enable`` costs the start of Python where none of the variables is set.

    python benchmarks/startup.py [ROUNDS]

Makes an environment of its own, and starts ``python -c pass`` in it, in turns with and without the
file of ``sonde enable``: the medians, their difference, and the spread of the same measurement
without the file (a second series, as a measure of noise). Then the time that Python itself
attributes to imports (``-X importtime``), which must name the same modules.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from sonde.cli import site_file
from sonde.core.observation_variables import VARIABLES


def start(python: Path, environ: dict[str, str]) -> float:
    """Seconds that one start of Python takes."""
    begin = time.perf_counter()
    subprocess.run([python, "-c", "pass"], env=environ, check=True)
    return time.perf_counter() - begin


def imported(python: Path, environ: dict[str, str]) -> list[str]:
    """The modules that Python imports at its start."""
    command = [python, "-X", "importtime", "-c", "pass"]
    done = subprocess.run(command, env=environ, check=True, capture_output=True, text=True)
    return [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()[1:]]


def line_alone(rounds: int = 20_000) -> float:
    """Seconds that the line itself takes, without reading the file."""
    code = compile(site_file.line(), "line", "exec")
    begin = time.perf_counter()
    for _ in range(rounds):
        exec(code)
    return (time.perf_counter() - begin) / rounds


def main(rounds: int) -> int:
    environ = {name: text for name, text in os.environ.items() if name not in VARIABLES}
    os.environ.clear()
    os.environ.update(environ)
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, symlinks=True, with_pip=False)
        python = Path(folder, "bin", "python")
        (site,) = Path(folder, "lib").glob("python3.*/site-packages")
        file = site / site_file.NAME
        series: dict[str, list[float]] = {"without": [], "enabled": [], "without, again": []}
        for _ in range(rounds):
            for name, times in series.items():
                if name == "enabled":
                    file.write_text(site_file.line())
                times.append(start(python, environ))
                file.unlink(missing_ok=True)
        plain = imported(python, environ)
        file.write_text(site_file.line())
        more = [name for name in imported(python, environ) if name not in plain]
    medians = {name: 1e3 * statistics.median(times) for name, times in series.items()}
    for name, median in medians.items():
        print(f"{name:>15}: {median:.3f} ms")
    print(f"     difference: {1e3 * (medians['enabled'] - medians['without']):+.0f} us")
    print(f"          noise: {1e3 * (medians['without, again'] - medians['without']):+.0f} us")
    print(f" the line alone: {1e6 * line_alone():.1f} us")
    print(f"imported besides: {', '.join(more) or 'nothing'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
