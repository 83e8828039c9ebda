"""The base of a comparison: its commit, its worktree, the process that estimates it, its results."""
