"""Closed forms: what a model, a way of training it and a layout over GPUs take, without running anything.

``inputs/`` reads a model from what people have into plain values; ``parameters`` and ``sharding`` give a
rank its tensors; ``implementations/`` give each layer as a tape of operators; ``moments`` follows a step
over the tapes, and ``figures`` makes the highest moment a report. Pure functions, no torch. Every term has
its formula and source.
"""
