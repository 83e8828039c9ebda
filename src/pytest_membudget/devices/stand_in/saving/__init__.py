"""Checkpoints: as large as on a card, with a hole for what nobody has computed.

Each format's writer and reader is replaced at its public entry; what is known (steps, settings, tokens) is
written as it is. Files are read back with their shapes, and neither cost time nor cause a caveat.
"""
