"""Shows results in a terminal, and in the messages of failed tests.

The verdict comes first, then the figures, then what holds the memory: report.json has what is left out here.
All are texts for a given width (``fitting``); the gate prints them.
"""
