"""Virtual environments of other tools, made for one run of the benchmark and removed after it.

Each has its tool and what that requires; everything else, torch among it, is that of the
environment that runs the benchmark.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path
from types import TracebackType

PACKAGES = {
    "torch_audit": "torch-audit==0.3.0",
    "msprobe_monitor": "mindstudio-probe==26.2.0",
    "traincheck": "traincheck==0.2.0",
}
INSTALL_SECONDS = 900


class Environments:
    """Makes the environment of a tool when it is asked for; removes all of them at the end."""

    def __init__(self) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="diagnosis-peers-")

    def __enter__(self) -> Environments:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._place.cleanup()

    def python(self, tool: str) -> str:
        """The interpreter for a tool; raises CalledProcessError or TimeoutExpired if it cannot be
        installed."""
        if tool not in PACKAGES:
            return sys.executable
        folder = Path(self._place.name) / tool
        venv.create(folder, with_pip=True)
        python = folder / "bin" / "python"
        asked = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
        own = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True)
        shared = sysconfig.get_paths()["purelib"]
        line = f"import site; site.addsitedir({shared!r})\n"
        Path(own.stdout.strip(), "shared.pth").write_text(line)
        print(f"installing {PACKAGES[tool]}", file=sys.stderr, flush=True)
        subprocess.run(
            [python, "-m", "pip", "install", "-q", PACKAGES[tool]],
            check=True,
            timeout=INSTALL_SECONDS,
            stdout=sys.stderr,
        )
        return str(python)
