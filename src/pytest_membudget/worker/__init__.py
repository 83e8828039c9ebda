"""The worker: a child process that runs single tests of the session on a device."""
