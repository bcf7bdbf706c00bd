"""`python -m linoto.cli`."""

import sys

from linoto.cli import main

if __name__ == "__main__":
    sys.exit(main())
