"""The side of the worker process: collects the session's tests and runs one at a time."""
