"""Budgets: the marker, the settings, limits on growth, and verdicts."""
