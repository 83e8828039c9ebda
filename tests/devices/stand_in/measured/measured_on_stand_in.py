"""A plugin for sessions of these tests: they measure on the stand-in as on a card. No user's session does."""

from pytest_membudget.devices.real.device import RealCudaDevice
from pytest_membudget.testing import GivenDevice


def pytest_membudget_estimates():
    """The device to measure on."""
    return GivenDevice("measured_on_stand_in:made_for")


def made_for(order):
    """The measuring device itself, without asking what it would measure on."""
    return RealCudaDevice()
