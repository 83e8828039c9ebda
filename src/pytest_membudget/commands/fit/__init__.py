"""``membudget fit``: the largest value of a test's parameter with which the test fits a card."""
