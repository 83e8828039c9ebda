"""The worker: a process of the user's own session that runs single tests on the virtual device."""
