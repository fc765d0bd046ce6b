"""The report as one page that needs nothing else: no network, no other file."""

from __future__ import annotations

import html

import msgspec

from sonde.profile.document import Profile
from sonde.profile.report.page_charts import CHARTS
from sonde.profile.report.page_style import STYLE
from sonde.profile.report.page_tables import TABLES

_BODY = """
<main>
<h1 id="title"></h1><div class="dim" id="about"></div>
<div class="cards" id="cards"></div><div id="notes"></div>
<h2>Where a step's time goes</h2><div class="dim" id="partstext"></div>
<div class="bar" id="bar"></div>
<div class="legend" id="legend"></div>
<h2>Findings, greatest gain first</h2><div id="findings"></div><div id="hints"></div>
<section id="triedsection"><h2>Tried</h2><div id="tried"></div></section>
<h2>Steps</h2><div class="dim">Pale steps were not profiled. A dot marks an outlier.</div>
<div id="steps"></div>
<h2>One step in detail</h2>
<div class="tools"><span class="dim" id="timelinestep"></span>
<button id="whole">whole step</button></div><canvas id="timeline"></canvas>
<h2>Modules</h2><div class="dim">Width is time; the greener, the more forward, the bluer, the more
backward. Click to go into a module, click it again to go back.</div>
<div class="flame" id="flame"></div><div id="modules"></div>
<h2>Operators</h2><div id="ops"></div>
<h2>Lines of your code</h2><div id="lines"></div>
<h2>Memory</h2><div class="dim" id="memorytext"></div><div id="memory"></div>
</main>
"""


def page(profile: Profile) -> str:
    """The page of a profile."""
    title = html.escape(" ".join(profile.program))
    data = msgspec.json.encode(profile).decode()
    # Inside a script only "</" and "<!--" could end or confuse it; JSON can say both otherwise.
    data = data.replace("<", "\\u003c")
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}: profile</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head><body>{_BODY}"
        f'<script type="application/json" id="profile">{data}</script>'
        f"<script>{CHARTS}{TABLES}</script></body></html>\n"
    )
