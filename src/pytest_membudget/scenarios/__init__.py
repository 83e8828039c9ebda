"""``*.membudget.yaml``: budgets of models and clusters that nobody runs, reckoned from formulas."""
