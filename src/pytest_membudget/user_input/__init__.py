"""Checks what users write (marks, settings, files) against descriptions of fields; errors have lines."""
