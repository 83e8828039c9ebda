"""Sessions of this plugin's own tests, whose estimates or whose card a test gives, without a worker.

A session uses them if its command line names this module, and a hook has them. Nothing is checked in such a
session: its header and its summary say so, and ``testing`` in report.json.

PYTEST_DONT_REWRITE: a test that starts several sessions in its own process has this module loaded already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pytest

from .errors import UsageMistake
from .results.estimator import Estimator

#: The plugin that a session's command line names.
MODULE: Final = __name__


@dataclass(frozen=True, slots=True)
class GivenEstimates:
    """What estimates and measures in place of workers; scenarios are estimated by formulas all the same."""

    bodies: Estimator
    measurer: Estimator


@dataclass(frozen=True, slots=True)
class GivenDevice:
    """A device in place of the CUDA card that tests are measured on."""

    device: str
    """``module:function``, which makes the device as ``devices.real.device:made_for`` does."""


class _Hooks:
    @pytest.hookspec(firstresult=True)
    def pytest_membudget_estimates(self, config: pytest.Config) -> GivenEstimates | GivenDevice | None:
        """The estimates or the device of the session; a hook of the root conftest or of a plugin."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """The one hook of this module."""
    pluginmanager.add_hookspecs(_Hooks)


def given_to(config: pytest.Config, args: Sequence[str]) -> GivenEstimates | GivenDevice | None:
    """The given estimates or device of the session of ``config``; None if it uses workers.

    ``args``: its command line. Raises ``UsageMistake`` where that does not name this module, or where nothing
    is given.
    """
    if not config.pluginmanager.hasplugin(MODULE):
        return None
    if not any(MODULE in arg for arg in args):
        raise UsageMistake(
            f"{MODULE} is for sessions that tests start, which check nothing: name it on the command line "
            f"(-p {MODULE}), not in a conftest or in settings; take it out to check budgets"
        )
    given: GivenEstimates | GivenDevice | None = config.hook.pytest_membudget_estimates(config=config)
    if given is None:
        raise UsageMistake(
            f"-p {MODULE}: no estimates are given; write pytest_membudget_estimates in the root conftest"
        )
    return given
