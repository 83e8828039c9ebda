"""The lock file of tests without ``gib``: reads it, compares figures with it, and updates it."""
