"""SIGTERM, with which CI systems cancel a job, ends a session as Ctrl-C does: with its report."""

import signal
import threading

import pytest

_NUMBER = signal.SIGTERM


def interrupt_on_sigterm(config: pytest.Config) -> None:
    """Until the session of ``config`` ends; nothing where somebody has a handler already, or in a thread."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(_NUMBER) is signal.SIG_DFL:
        signal.signal(_NUMBER, signal.default_int_handler)
        config.add_cleanup(_restore)


def _restore() -> None:
    signal.signal(_NUMBER, signal.SIG_DFL)
