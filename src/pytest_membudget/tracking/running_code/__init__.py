"""What of the code is running: its module, source line, stream, compiled function; and what is replaced."""
