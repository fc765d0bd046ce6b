"""``sonde``, and ``python -m sonde``: the command, once it is imported.

That takes a moment, and this module next to none, so that Ctrl-C finds somebody in charge.
"""

import sys


def main() -> int:
    """The exit code; 130 without a word where Ctrl-C comes before there is a command."""
    try:
        from sonde.cli.main import main as run
    except KeyboardInterrupt:
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
