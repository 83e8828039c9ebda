"""``*.membudget.yaml``: budgets of models and clusters that are not run, computed from formulas."""
