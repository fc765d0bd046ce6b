"""``sonde``, and ``python -m sonde``: imports the command and runs it.

The import takes a moment. This module imports almost nothing, so that it can handle a Ctrl-C that
comes during that import.
"""

import sys


def main() -> int:
    """Run the command; return 130 without a message if Ctrl-C comes while it is imported."""
    try:
        from sonde.cli.main import main as run
    except KeyboardInterrupt:
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
