"""Compares head and base: what has grown, where, and whether that is allowed.

``base/`` brings the base's results: another commit in a worktree, another environment, or a stored report,
all as one value. ``matching`` pairs holders of both sides although lines have moved; ``findings`` are the
few pairs that explain a change; ``verdicts`` decide whether it is allowed. These are pure functions of two
results; ``comparing`` is the edge that runs them in a session.
"""
