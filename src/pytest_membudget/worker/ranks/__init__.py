"""Tests on several ranks: their processes, and their answers combined."""
