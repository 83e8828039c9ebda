"""What is kept of one device, or of another number of cards, is not used for others."""

from dataclasses import replace

import pytest

from pytest_membudget.budgets.settings import Settings
from pytest_membudget.cache import session_cache
from pytest_membudget.worker.client.order import STAND_IN, VIRTUAL, Order

ORDER = Order(args=(), dir="/project", files=["test_a.py"], gpu="H100-80GB", timeout=300, device=STAND_IN)


@pytest.fixture
def facts(pytestconfig, monkeypatch):
    """``facts(settings, order)``: what estimates of such a session are found by."""

    def settings_of(names, files, *, settings, **_):
        return settings

    def make(settings, order):
        monkeypatch.setattr(session_cache, "session_facts", settings_of)
        monkeypatch.setattr(session_cache, "EstimateCache", lambda store, root, facts, finds: facts)
        return session_cache.cache_of(pytestconfig, settings, order)(None, None)

    return make


@pytest.mark.parametrize("change", [{"device": VIRTUAL}, {"cards": 8}, {"gpu": "A100-40GB"}])
@pytest.mark.parametrize("asked", ["auto", "stand-in", "fake"])
def test_another_device_or_number_of_cards_is_another_fact(facts, change, asked):
    settings = Settings(device=asked)

    assert facts(settings, ORDER) != facts(settings, replace(ORDER, **change))


def test_who_has_chosen_the_device_is_none(facts):
    assert facts(Settings(device="auto"), ORDER) == facts(Settings(device="stand-in"), ORDER)
