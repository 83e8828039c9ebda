"""Compares head and base: what has grown, where, and whether that is allowed."""
