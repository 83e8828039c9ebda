"""The worker: a child process that runs single tests of the session on a device.

The user's pytest process is never changed: a worker repeats its session (``server/``), in an environment
where torch's CUDA code finds a card, and runs each test that it is asked for in a separate child. The
session's side is in ``client/``; both talk in lines of JSON (``protocol``), whose content is
``results.answer``. A worker is a copy of a process that has imported torch already (``template``), or an
ordinary one where a copy might be seen to be one. ``ranks/`` has one process for each rank where a test is
measured on several cards.
"""
