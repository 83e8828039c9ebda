"""Reads report.json as untrusted data."""
