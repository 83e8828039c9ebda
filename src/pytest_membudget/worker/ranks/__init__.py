"""Tests on several ranks: a process and a card each, as torchrun starts them, and their answers combined.

All ranks run one test at the same time; the first that fails is the reason, and the worst figure is the
test's.
"""
