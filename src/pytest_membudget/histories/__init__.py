"""Recorded allocator histories: read without running anything in them, and laid beside one another."""
