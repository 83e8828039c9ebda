"""Tests here have the ``trace`` fixture of tests/devices/traced."""

from tests.devices.traced.conftest import device_servers, trace

__all__ = ["device_servers", "trace"]
