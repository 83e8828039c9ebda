"""The worker: a child process that runs single tests of the user's session on a device."""
