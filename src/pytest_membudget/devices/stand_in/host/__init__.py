"""Tensors on the host while the card is the stand-in: counted, and not computed where they are large."""
