"""The cache of estimates: an estimate is reused unless something that it depends on has changed.

What a run depends on is observed while it runs (``observer``, by audit hooks): files, folders, modules. An
entry keeps their states; a lookup reads them again. What cannot be observed (sockets, processes, a file that
the test changes itself) means that nothing is kept, and the session says why.
"""
