"""Recorded allocator histories: read without running any code in them, and compared."""
