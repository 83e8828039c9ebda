"""``*.membudget.yaml``: budgets of jobs computed from formulas, and of scripts that are run as they are.

``schema`` declares the fields once: the checks, the JSON Schema for editors and the reference are made of
it. An entry is a test as pytest has them, with an id and the place of its line.
"""
