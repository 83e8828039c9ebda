"""Shows results: texts that several formats share; the formats are in the folders.

``report.json`` (``document``) is the one source: every other format, here or in ``membudget report``, is
made of it, so all say the same. It is read as untrusted data, and escaped for each format where it is
written.
"""
