"""The running code: its module, source line, stream and compiled function."""
