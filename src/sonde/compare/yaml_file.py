"""Reads YAML files of users as nodes with lines, so that each error can name its line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sonde.compare.options import CompareError

_MOST_BYTES: Final = 64 << 20


def read_yaml(path: Path, what: str, *, slug: str) -> Any:
    """The nodes of the document; no objects are constructed from it. ``what`` is the kind of file,
    and ``slug`` that of the errors."""
    try:
        import yaml  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise CompareError(f"{what} needs PyYAML; pip install pyyaml", slug=slug) from None
    try:
        return yaml.compose(_read(path), yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise CompareError(f"{path}: cannot be read: {error}", slug=slug) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        problem = getattr(error, "problem", None) or "it has characters that YAML does not allow"
        raise yaml_problem(path, line, f"is not YAML: {problem}", slug=slug) from None
    except RecursionError:
        raise yaml_problem(path, 1, "is nested too deeply", slug=slug) from None
    except (ValueError, OverflowError, IndexError) as error:  # PyYAML does not catch these.
        raise yaml_problem(path, 1, f"is not YAML: {error}", slug=slug) from None


def mapping_of(node: Any) -> Iterator[tuple[str, tuple[int, Any]]]:
    """Keys with their lines and values; nothing if the node is not a mapping."""
    if node is not None and node.id == "mapping":
        for key, value in node.value:
            # A list or a mapping is not converted to text: aliases may make it endless.
            name = str(key.value) if key.id == "scalar" else f"a {key.id} in place of a name"
            yield name, (key.start_mark.line + 1, value)


def yaml_problem(path: Path, line: int, what: str, *, slug: str) -> CompareError:
    return CompareError(f"{path}:{line}: {what}", slug=slug)


def _read(path: Path) -> str:
    if not path.is_file() and path.exists():  # Reading a pipe might never end.
        raise OSError("it is not a file")
    if path.stat().st_size > _MOST_BYTES:
        raise OSError(f"it has more than {_MOST_BYTES >> 20} MB")
    return path.read_text("utf-8")
