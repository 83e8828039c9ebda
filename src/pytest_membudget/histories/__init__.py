"""Recorded allocator histories: read without running any code in them, and compared.

A history is what ``torch.cuda.memory._snapshot`` gives, of a run here or of a file from elsewhere.
``reading`` checks all that it takes from a file; ``places`` reads stacks; ``comparison`` pairs the requests
of two histories.
"""
