"""``python -m sonde`` is ``sonde``."""

import sys

from sonde.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
