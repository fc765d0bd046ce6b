"""``sonde mcp``: a server of the Model Context Protocol, with which coding agents use Sonde.

Each tool runs one command of Sonde with ``--json`` (`command`), and shortens its document to an
answer (`answer`). ``docs/agents.md`` is the page for users.
"""
