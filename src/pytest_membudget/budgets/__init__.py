"""Budgets: the marker, the settings, limits on growth, and verdicts.

``Budget`` is one frozen value, whose fields declare what the marker takes: the marker, a scenario file and
the settings' defaults are read into it by the same checks. ``MarkedTest`` adds the place of the mark, for
messages. ``judge`` is a pure function of a budget and reports; a budget that nothing was compared with is
an error, never within.
"""
