"""Writes report.json, and converts it to Markdown, HTML, JUnit, annotations and metrics."""
