"""Shows results in a terminal, and in the messages of failed tests."""
