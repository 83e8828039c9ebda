"""Shows results: the terminal summary and the messages of failures."""
