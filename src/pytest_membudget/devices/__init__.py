"""Devices that a test body runs on: the stand-in for a card, a real card."""
