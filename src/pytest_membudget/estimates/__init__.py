"""What an estimate of a test is, and the one contract of all ways to make one."""
