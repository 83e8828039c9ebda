"""Tests on several ranks: their processes, estimates and measurements."""
