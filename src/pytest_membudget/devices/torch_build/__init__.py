"""The builds of torch at hand: the environment's own, and a CUDA build for workers alone.

Found by files, without importing torch: the session must not. ``membudget install-torch`` fills the folder
that ``installed`` looks for.
"""
