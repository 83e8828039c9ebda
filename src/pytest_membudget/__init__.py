"""GPU-memory budgets for PyTorch tests.

Importing this package imports neither torch nor yaml: pytest imports it at start-up, in
every session, whether or not a budget is asked for. The steps live in ``pytest_membudget.steps``.

PYTEST_DONT_REWRITE: the worker has this package loaded before it starts pytest, which would warn.
"""

from .assumptions import assume

__version__ = "0.1.0"

__all__ = ["__version__", "assume"]
