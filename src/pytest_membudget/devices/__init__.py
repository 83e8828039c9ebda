"""Devices that a test body runs on: the stand-in, fake tensors, a real card."""
