"""``*.membudget.yaml``: budgets of jobs computed from formulas, and of scripts that are run as they are."""
