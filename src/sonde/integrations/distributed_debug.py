"""A page about numerics in the debug server of ``torch.distributed.debug``.

from torch.distributed.debug import start_debug_server
from torch.distributed.debug._debug_handlers import default_handlers

from sonde.integrations.distributed_debug import NumericsHandler

start_debug_server(handlers=[*default_handlers(), NumericsHandler("sonde_steps")])
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from sonde.core.errors import SondeError
from sonde.core.text.number_text import number_text
from sonde.debugger.launch.server_registry import running_servers
from sonde.integrations.missing_library import MissingLibraryError
from sonde.monitor.options import DEFAULT_DIRECTORY
from sonde.monitor.reading import SignalTable, ranks_in, read_signals

try:
    from torch.distributed.debug._frontend import DebugHandler, NavLink, Route
except ImportError as _error:
    raise MissingLibraryError("jinja2", "distributed-debug", _error) from None

_COLUMNS: Final = ("loss", "grad_norm", "weight_norm", "update_ratio", "learning_rate")
_TEMPLATE: Final = """
{% extends "base.html" %}
{% block header %}<h1>{% block title %}Numerics{% endblock %}</h1>{% endblock %}
{% block content %}
<p>The last step of each rank that Sonde guards, from {{ directory }}.
{% for url in pages %}<a href="{{ url | e }}">Sonde's page</a> {% endfor %}</p>
{% if rows %}
<table border="1" cellpadding="4">
<tr><th>rank</th>{% for name in columns %}<th>{{ name }}</th>{% endfor %}</tr>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell | e }}</td>{% endfor %}</tr>{% endfor %}
</table>
{% else %}<p>There are no signals yet; run the program with sonde run --guard.</p>{% endif %}
{% for line in problems %}<p>{{ line | e }}</p>{% endfor %}
{% if kept %}<h2>Captured steps</h2>
<ul>{% for path in kept %}<li><code>sonde replay {{ path | e }} --debug</code></li>{% endfor %}</ul>
{% endif %}
{% endblock %}
"""


class NumericsHandler(DebugHandler):
    """Shows signals, triggered and captured steps of every rank, and links to Sonde's page.

    ``directory`` is that of the guard, which rank 0 must be able to read for all ranks. ``page`` is
    the address of Sonde's page; without it the page links to the servers that this user runs on
    this machine. Addresses have no token: the debug server shows them to everybody.
    """

    def __init__(
        self, directory: str | os.PathLike[str] = DEFAULT_DIRECTORY, page: str | None = None
    ) -> None:
        self._directory = Path(directory).absolute()
        self._page = page

    def routes(self) -> list[Any]:
        return [Route("/sonde", self._answer)]

    def nav_links(self) -> list[Any]:
        return [NavLink("/sonde", "Numerics")]

    def templates(self) -> dict[str, str]:
        return {"sonde.html": _TEMPLATE}

    def dump(self) -> str:
        rows, problems = self._table()
        return "\n".join([*(" ".join(row) for row in rows), *problems])

    def dump_filename(self) -> str:
        return "sonde"

    def _answer(self, request: Any) -> bytes:
        rows, problems = self._table()
        kept = sorted(self._directory.glob("step_*")) if self._directory.is_dir() else []
        pages = [self._page] if self._page else [each.url for each in running_servers()]
        answer: bytes = request.frontend.render_template(
            "sonde.html",
            directory=self._directory,
            pages=pages,
            columns=("step", "triggered steps", *_COLUMNS),
            rows=rows,
            problems=problems,
            kept=kept,
        )
        return answer

    def _table(self) -> tuple[list[list[str]], list[str]]:
        """A row for each rank, and a line about each file that cannot be read."""
        rows, problems = [], []
        for rank in ranks_in(self._directory):
            try:
                rows.append(_row(read_signals(self._directory, rank)))
            except SondeError as error:
                problems.append(str(error))
        return rows, problems


def _row(table: SignalTable) -> list[str]:
    if not len(table["step"]):
        return [str(table.rank), "-", "0", *("-" for _ in _COLUMNS)]
    triggered = int((table["triggers"] > 0).sum())
    numbers = [number_text(float(table[name][-1])) for name in _COLUMNS]
    return [str(table.rank), str(int(table["step"][-1])), str(triggered), *numbers]
