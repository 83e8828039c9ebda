"""Programs that measure this plugin: how exact its estimates are, and how fast."""
