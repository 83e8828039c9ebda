"""Estimates of earlier sessions, used again where nothing that they depend on has changed."""
