"""What the commands print with ``--json``: the types, and their schemas in ``docs/schemas``."""
