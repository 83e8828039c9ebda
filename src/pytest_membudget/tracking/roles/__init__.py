"""What storages are for: parameters, buffers, gradients, optimizer states, and copies of them.

A storage is known by its address alone, and what it is for is often seen after it was made: so roles are
noted as they are seen (a module registers a parameter, a backward accumulates, an optimizer holds), and
joined with lives later.
"""
