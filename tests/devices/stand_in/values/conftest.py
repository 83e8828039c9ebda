"""The ``trace`` fixture of tests/devices/traced, over the stand-in's cards."""

from types import SimpleNamespace

import pytest
from running import run_following

from pytest_membudget.caveats import Caveat

#: Of cuSOLVER's decompositions only some have their workspace's size.
_NOT_MODELLED = ("cusolverDnSorgqr_bufferSize", "cusolverDnXgeqrf_bufferSize")


@pytest.fixture
def trace(stand_in):
    """``trace(body, *args)``: what ``body`` returned, what was assumed, its peak."""

    def run(body, *args, **keywords):
        answer = stand_in(
            run_following,
            body.__code__.co_filename,
            body.__name__,
            args,
            unlimited=True,
            not_modelled=_NOT_MODELLED,
            **keywords,
        )
        caveats = tuple(map(Caveat.from_json, answer["caveats"]))
        assumptions = tuple(caveat.text for caveat in caveats)
        report = SimpleNamespace(caveats=caveats, assumptions=assumptions, peak_bytes=answer["peak_bytes"])
        return SimpleNamespace(value=answer["value"], report=report, allocated=answer["peak_bytes"])

    return run
