"""Runs one test, and makes the answer to its request."""
