"""Attributes storages to components, modules and source lines, on virtual and real devices."""
