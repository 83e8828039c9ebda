"""The gate: pytest's hooks, the session's results and the summary."""
