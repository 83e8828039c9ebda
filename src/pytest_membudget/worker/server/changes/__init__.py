"""The changes that are made to a running body from outside, in a process that ends with its run."""
