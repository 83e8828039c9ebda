"""What memory was for: each storage's life, component, module and source line, on any device.

PyTorch's allocator says what was allocated, released and reserved, and where; hooks say what the step was
doing and what tensors were for. Played in their order, both make a ``Record`` for each storage; the
``Ledger`` keeps who was alive at each peak and at the end, and ``summary`` makes of it the report that
everybody reads. Nothing here decides a total: totals are the allocator's. No torch but in
``roles/`` and ``running_code/``, which look at tensors and frames while the test runs.
"""
