"""What a test may take: the marker, settings, limits on growth and verdicts."""
