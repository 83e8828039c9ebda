"""The lock file: figures that tests without ``gib`` keep, read, judged and updated."""
