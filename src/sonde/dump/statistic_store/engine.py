"""DuckDB, which reads and writes the Parquet files of statistics. Only this module imports it."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sonde.core.errors import DumpError

ADVICE = "pip install 'sonde[query]'"

_MEMORY = "1GB"
_SETTINGS = {
    "threads": 1,
    "memory_limit": _MEMORY,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def is_installed() -> bool:
    """Whether DuckDB can be imported; it is not imported to find out."""
    return find_spec("duckdb") is not None


def connect() -> Any:
    """A new connection to an empty database in memory, with one thread and bounded memory.

    DumpError if DuckDB is not installed.
    """
    try:
        duckdb = import_module("duckdb")
    except ImportError:
        raise DumpError(
            f"statistics in Parquet files need DuckDB, which is not installed: {ADVICE}",
            slug="extra-missing",
        ) from None
    connection = duckdb.connect(":memory:", config=dict(_SETTINGS))
    connection.execute("set parquet_metadata_cache = true")
    return connection


def confine(connection: Any, directories: Iterable[Path]) -> None:
    """Let the connection open no file outside these directories and load no extension; no
    statement can change that."""
    names = ", ".join(text_of(os.path.realpath(each)) for each in directories)
    connection.execute("set allowed_directories = [" + names + "]")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def is_reading_query(connection: Any, sql: str) -> bool:
    """Whether the text is one statement that writes no file: a SELECT, or an EXPLAIN or a PIVOT
    that has no COPY in it. An error of DuckDB if it cannot be parsed."""
    types = [each.type.name for each in connection.extract_statements(sql)]
    if types == ["SELECT"]:
        return True
    return types in (["EXPLAIN"], ["MULTI"]) and "copy" not in _keywords(sql)


def _keywords(sql: str) -> set[str]:
    """The keywords of a statement, in lower case."""
    text = sql.encode()
    tokens = import_module("duckdb").tokenize(sql)
    ends = [*(place for place, _ in tokens[1:]), len(text)]
    return {
        text[place:end].strip().lower().decode("ascii", "replace")
        for (place, kind), end in zip(tokens, ends, strict=True)
        if kind.name == "keyword"
    }


def failure() -> type[Exception]:
    """The class of all errors of DuckDB."""
    kind: type[Exception] = import_module("duckdb").Error
    return kind


_connections: dict[int, Any] = {}
# DuckDB prints lines about leaks if the interpreter ends while a thread still has a connection.
atexit.register(_connections.clear)


def shared_connection() -> Any:
    """The connection of this thread for short reads."""
    thread = threading.get_ident()
    found = _connections.get(thread)
    if found is None:
        found = _connections[thread] = connect()
    return found


def text_of(value: str) -> str:
    """A text as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def files_of(paths: Iterable[Path]) -> str:
    """The expression that reads these Parquet files; columns that a file lacks are null.

    There is at least one path. A name with a wildcard in it is read as it is, because DuckDB
    would otherwise match it against other files.
    """
    names = ", ".join(text_of(_without_wildcards(str(path))) for path in paths)
    return f"read_parquet([{names}], union_by_name = true, hive_partitioning = false)"


@lru_cache(maxsize=4096)
def _without_wildcards(path: str) -> str:
    return "".join(f"[{each}]" if each in "*?[" else each for each in path)
