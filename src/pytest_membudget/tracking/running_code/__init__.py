"""The running code: its module, source line, stream and compiled function.

Each is asked at the moment when memory is allocated, so each answer is cheap, and nothing that the test can
see is changed: hooks are installed with the device and removed before the test's own teardown.
"""
