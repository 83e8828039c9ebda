"""Optimizers: what each keeps between steps, and what its step makes and frees, one file a family."""
