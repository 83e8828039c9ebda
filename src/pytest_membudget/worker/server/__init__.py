"""The worker's side: collects the session's tests as the session did, and runs the requested ones.

A test runs in a fork of the worker (``child_process``), so that it leaves nothing behind and may crash,
hang or exit: there is always an answer. ``one_test/`` is what happens in that fork, ``changes/`` what is
tried to lower a figure.
"""
