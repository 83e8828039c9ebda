"""Writes report.json, and converts it to Markdown, HTML and annotations; and what JUnit's files get of it.

Each format is made of a ``Document`` alone, so that a report can be converted later and elsewhere. What it
names (tests, files, lines of code) was written by others, and is escaped for each format (``escaping``).
"""
