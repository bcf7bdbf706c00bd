"""`python -m linoto`."""

import sys

from linoto.cli import main

if __name__ == "__main__":
    sys.exit(main())
