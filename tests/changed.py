"""Prints the tests of what changed since main: ``python -m tests.changed``.

The tests of ``src/sonde/dump/reader.py`` are ``tests/dump/test_reader*.py`` where there are such
files, otherwise those of the folder. Where nothing changed, the folders whose tests are fast.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALWAYS = ("tests/core", "tests/docs")
FAST = ("tests/capture", "tests/kernels", "tests/logs", "tests/watch", "tests/wire")
ELSEWHERE = {"web": "tests/web", "native": "tests/kernels", "docs": "tests/docs"}


def git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[:-1]


def changed() -> list[str]:
    """Files that differ from the place where this branch left main, and new ones."""
    base = git("merge-base", "HEAD", "origin/main") or git("merge-base", "HEAD", "main") or ["HEAD"]
    return git("diff", "--name-only", base[0]) + git("ls-files", "--others", "--exclude-standard")


def tests_of(name: str) -> list[str]:
    """The tests to run for a changed file, none for one that has none of its own."""
    path = Path(name)
    if path.parts[:2] == ("src", "sonde"):
        folder = Path("tests", *path.parts[2:-1])
        named = sorted(ROOT.joinpath(folder).glob(f"test_{path.stem}*.py"))
        if named:
            return [str(file.relative_to(ROOT)) for file in named]
        while not ROOT.joinpath(folder).is_dir():
            folder = folder.parent
        return [] if folder == Path("tests") else [str(folder)]
    if path.parts[0] == "tests":
        if path.name.startswith("test_"):
            return [name] if ROOT.joinpath(name).exists() else []
        return [] if path.parent == Path("tests") else [str(path.parent)]
    return [ELSEWHERE[path.parts[0]]] if path.parts[0] in ELSEWHERE else []


def main() -> None:
    found = {test for name in changed() for test in tests_of(name)}
    wanted = {*ALWAYS, *(found or FAST)}
    inner = {each for each in wanted for other in wanted if each.startswith(f"{other}/")}
    print(*sorted(wanted - inner))


if __name__ == "__main__":
    main()
