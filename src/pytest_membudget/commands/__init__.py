"""The subcommands of ``membudget``."""
