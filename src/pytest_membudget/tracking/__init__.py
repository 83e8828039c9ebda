"""Storages into components, modules and source lines; the same for the virtual and the real device."""
