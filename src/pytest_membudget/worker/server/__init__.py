"""The worker's side of the protocol: collects the session's tests and runs the requested ones."""
