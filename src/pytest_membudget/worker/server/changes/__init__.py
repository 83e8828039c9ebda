"""Changes that are applied to a test's body from outside, in a process that runs nothing else."""
