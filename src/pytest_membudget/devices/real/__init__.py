"""A real card, and what it shares with the stand-in: the record of one run.

``RecordedRun`` starts the allocator's history, installs the hooks that note what the step does, and at the
end joins both (``overlay``) into the ledger of ``tracking``. The real card adds its driver's figures,
nothing else.
"""
