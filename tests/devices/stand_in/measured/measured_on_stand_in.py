"""A plugin for sessions of these tests: they measure on the stand-in as on a card. No user's session does."""

import pytest_membudget.gate.estimators
from pytest_membudget.devices.real.device import CudaDevice

pytest_membudget.gate.estimators.MEASURED_ON = "measured_on_stand_in:made_for"


def made_for(order):
    """The measuring device itself, without asking what it would measure on."""
    return CudaDevice()
