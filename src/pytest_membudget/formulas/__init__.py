"""Closed forms: what a model, a way of training it and a layout over GPUs take, without running anything."""
