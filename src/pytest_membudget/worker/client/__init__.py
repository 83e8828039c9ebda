"""The side of the session: starts workers, asks them for estimates and measurements."""
