"""Models that the cases train, written for them."""
