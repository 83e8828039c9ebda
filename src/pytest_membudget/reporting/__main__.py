"""``python -m pytest_membudget.reporting report …``, as the command ``membudget``."""

from __future__ import annotations

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main())
