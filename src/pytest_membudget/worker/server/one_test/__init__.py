"""One test in its process: pytest runs its fixtures and body between a device's begin and end.

What it raises, prints, warns of and reads becomes its answer; what it assumed becomes caveats.
"""
