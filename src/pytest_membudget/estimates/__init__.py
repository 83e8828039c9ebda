"""``Estimate``, and ``Estimator``: the contract of all ways to make one."""
