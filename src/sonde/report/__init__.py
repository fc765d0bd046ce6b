"""Report pages: data in, one self-contained HTML file out.

`page` puts the data of a report into a page together with one script and one stylesheet, so that
the file needs neither a network nor another file. `links.write_report` writes it, with links to the
other reports of its directory. The script draws the data: charts by uPlot,
tables that sort and filter, in light and dark. There is one kind of page for each report:

======================  ======================================  ==========================
kind                    data                                    written by
======================  ======================================  ==========================
``profile``             `sonde.profile.document.Profile`        ``sonde profile``
``study``               `sonde.tune.store.listing`              ``sonde tune``
``comparison``          `sonde.compare.runs.report`             ``sonde compare --html``
``losses``              `sonde.compare.losses.report_page`      ``sonde loss --html``
``diagnosis``           `sonde.diagnosis.report_page`           ``sonde diagnose --html``
======================  ======================================  ==========================

``static/`` is built from ``web/report`` by ``make web`` and committed: installing needs no Node.
"""

from __future__ import annotations

import html
from importlib.resources import files
from typing import Any, Literal

from sonde.report.links import LINKS, MARK, encoded

Kind = Literal["profile", "study", "comparison", "losses", "diagnosis"]

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
{mark}
<title>{title}</title>
{links}
<style>{style}</style></head><body>
<div id="report"><noscript>This page is drawn by its script: allow JavaScript.</noscript></div>
<script type="application/json" id="data" data-page="{kind}">{data}</script>
<script>{script}</script></body></html>
"""


def page(kind: Kind, title: str, data: Any) -> str:
    """The HTML of one report.

    ``data`` is anything that msgspec encodes as JSON; a number that is not finite becomes null.
    """
    static = files("sonde.report") / "static"
    return _PAGE.format(
        mark=MARK.format(kind=kind),
        kind=kind,
        title=html.escape(title),
        links=LINKS.format(links="[]"),
        data=encoded(data),
        style=(static / "report.css").read_text("utf-8"),
        script=(static / "report.js").read_text("utf-8"),
    )
