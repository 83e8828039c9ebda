"""The subcommands of ``membudget``, one module each; ``main`` has their exit statuses.

They work on finished ``report.json`` files or start pytest sessions of their own (``sessions``); none of
them reaches into a session that runs. ``install-torch`` is the only code of the project that downloads
anything.
"""
