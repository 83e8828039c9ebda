"""Frozen dataclasses in JSON: written, and read by their type hints."""
