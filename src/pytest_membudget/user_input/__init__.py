"""Checks what users write (marks, settings, files) against descriptions of fields; errors have lines.

A ``Node`` is a value with its place. ``Table`` and ``Field`` describe what may be written; a check collects
all mistakes of a file, each with the value as written and what to write instead.
"""
