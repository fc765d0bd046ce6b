"""The look of the report's page."""

STYLE = """
:root { color-scheme: light dark; --line: #d8dbe0; --dim: #6a7280; --back: #ffffff; --card: #f6f7f9;
  --text: #1b1f24; --accent: #2563b0; --data: #d9822b; --forward: #2f9e8f; --backward: #3b6fb5;
  --optimizer: #8a5fb0; --collectives: #c0447a; --rest: #9aa1ab; --warn: #b45309; }
@media (prefers-color-scheme: dark) { :root { --line: #343a43; --dim: #98a1ad; --back: #15181c;
  --card: #1d2126; --text: #e6e9ed; --accent: #6ea8ec; --warn: #f0a844; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text);
  font: 14px/1.45 system-ui, sans-serif; }
main { max-width: 1232px; margin: 0 auto; padding: 20px 24px 60px; }
h1 { font-size: 20px; margin: 0 0 2px; font-weight: 600; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 34px 0 8px; font-weight: 600; }
.dim { color: var(--dim); } .mono { font-family: ui-monospace, monospace; font-size: 12.5px; }
.cards { display: flex; flex-wrap: wrap; gap: 10px; margin: 16px 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 6px;
  padding: 8px 14px; min-width: 120px; }
.card b { display: block; font-size: 19px; font-weight: 600; font-variant-numeric: tabular-nums; }
.bar { display: flex; height: 26px; border-radius: 4px; overflow: hidden; margin: 6px 0 8px; }
.bar span { min-width: 0; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; font-variant-numeric: tabular-nums; }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 2px;
  margin-right: 6px; }
.finding { border: 1px solid var(--line); border-left: 4px solid var(--accent); border-radius: 6px;
  padding: 10px 14px; margin: 8px 0; background: var(--card); }
.finding.warning { border-left-color: var(--warn); }
.finding header { display: flex; flex-wrap: wrap; gap: 4px 14px; align-items: baseline; }
.finding header b { font-size: 15px; } .finding .gain { font-weight: 600; color: var(--warn); }
.finding p { margin: 4px 0; } .finding code { overflow-wrap: anywhere; }
details summary { cursor: pointer; color: var(--dim); }
pre { margin: 6px 0 0; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; }
svg { display: block; width: 100%; } svg text { fill: var(--text); font-size: 11px; }
svg .axis { stroke: var(--line); } svg .dim { fill: var(--dim); }
canvas { display: block; width: 100%; border: 1px solid var(--line); border-radius: 4px; }
.flame { position: relative; border: 1px solid var(--line); border-radius: 4px; overflow: hidden; }
.flame div { position: absolute; height: 20px; line-height: 19px; padding: 0 4px; overflow: hidden;
  white-space: nowrap; font-size: 11.5px; cursor: pointer; color: #fff; border: 0.5px solid
  var(--back); border-radius: 2px; text-shadow: 0 1px 1px #0006; }
.tools { display: flex; gap: 10px; align-items: center; margin: 6px 0; flex-wrap: wrap; }
input[type=search] { padding: 5px 9px; border: 1px solid var(--line); border-radius: 5px; width:
  260px; background: var(--back); color: var(--text); font: inherit; }
button { font: inherit; padding: 4px 10px; border: 1px solid var(--line); border-radius: 5px;
  background: var(--card); color: var(--text); cursor: pointer; }
.scroll { max-height: 460px; overflow: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: 12.5px; }
th { position: sticky; top: 0; background: var(--card); text-align: left; padding: 6px 10px;
  cursor: pointer; white-space: nowrap; user-select: none; border-bottom: 1px solid var(--line); }
td { padding: 4px 10px; border-top: 1px solid var(--line); vertical-align: top; }
tbody tr:first-child td { border-top: 0; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td { white-space: nowrap; }
td.wrap { overflow-wrap: anywhere; min-width: 90px; max-width: 220px; white-space: normal; }
td .code { white-space: normal; min-width: 220px; color: var(--dim); display: block; }
#ops td { padding: 4px 7px; } #ops th { padding: 6px 7px; }
#ops td:first-child { min-width: 150px; } #ops td:nth-child(10) { min-width: 140px; }
#ops td .code { white-space: nowrap; min-width: 0; max-width: 180px; overflow: hidden;
  text-overflow: ellipsis; }
th.up::after { content: " \\25B2"; } th.down::after { content: " \\25BC"; }
.tip { position: fixed; pointer-events: none; background: var(--text); color: var(--back);
  padding: 5px 9px; border-radius: 5px; font-size: 12px; max-width: 460px; display: none;
  z-index: 9; white-space: pre-line; overflow-wrap: anywhere; }
"""
