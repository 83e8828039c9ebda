"""The base of a comparison: its commit, its worktree, the process that estimates it, its results.

The base runs in a separate process, with its own code and its own installed packages, while the head's
session does its work. Head and base exchange files (``exchange``), so that a base may also be a report from
another machine.
"""
