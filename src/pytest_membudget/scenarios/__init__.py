"""``*.membudget.yaml``: budgets of training jobs that are not run, computed from formulas."""
