"""The package itself as a command: `python -m internalize` is the same as `internalize`."""

import sys

from internalize.cli import main

if __name__ == "__main__":
    sys.exit(main())
