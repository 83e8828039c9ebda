"""The result of one test: budget, figures, verdict, and its comparison with the base. One JSON form."""
