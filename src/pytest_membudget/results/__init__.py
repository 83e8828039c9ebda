"""The result of one test: budget, figures, verdict, and its comparison with the base. In and out of JSON."""
