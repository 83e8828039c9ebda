"""The subcommands of ``membudget``, one module each; ``main`` has their exit statuses.

They work on finished ``report.json`` files or start separate pytest sessions (``sessions``); none of
them reaches into a session that runs. ``install-torch`` is the only code of the project that downloads
anything.
"""
