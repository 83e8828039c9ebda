"""The base of a comparison: which commit, its files, the process that estimates it, what it found."""
