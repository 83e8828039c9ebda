"""Checkpoints: as large as on a card, with a hole for what nobody has computed."""
