"""Programs that a scenario is run as: ``python -m pytest_membudget.recipes.NAME JSON``, in a worker.

Each builds a model by one library's own code and takes two steps, as a user's program does. Nothing of the
plugin imports them, but for ``known``, which imports no torch and says what each of them reads.
"""
