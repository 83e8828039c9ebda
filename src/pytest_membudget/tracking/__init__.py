"""Attributes storages to components, modules and source lines, on the stand-in and on real cards."""
