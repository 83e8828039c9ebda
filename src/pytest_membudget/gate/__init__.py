"""The gate: pytest's hooks, the session's results and the summary.

``hooks`` is the one plugin object; it holds no rule itself. ``session`` has one result for each marked
test, made by an ``Estimator`` when it is first needed, in this process or in an xdist worker. At the end
``session_results`` names the budgets without a result, which fail: nothing that was collected is forgotten.
"""
