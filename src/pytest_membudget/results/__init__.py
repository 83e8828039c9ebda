"""The result of one test: budget, figures, verdict, and its comparison with the base. In and out of JSON.

Results are frozen: measuring, comparing and advising return new ones. The ways to estimate a test are
siblings with one contract, ``Estimator``; the gate knows nothing else of them.
"""
