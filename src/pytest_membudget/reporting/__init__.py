"""Rows of report.json in, text out."""
