"""The session's side of the protocol: starts workers and sends them requests."""
