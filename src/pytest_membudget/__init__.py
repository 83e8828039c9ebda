"""GPU-memory budgets for PyTorch tests.

Importing this package imports neither torch nor yaml nor tabulate: pytest imports it at start-up, in
every session, whether or not a budget is asked for. The steps live in ``pytest_membudget.steps``.
"""

from __future__ import annotations

__version__ = "0.1.0"

__all__ = ["__version__"]
