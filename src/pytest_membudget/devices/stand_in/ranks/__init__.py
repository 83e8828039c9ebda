"""One rank of many on the stand-in: PyTorch's own process groups, whose other ranks are not there.

The rank runs alone: NCCL moves nothing, and what other ranks would send is taken to be what this one has
(``collectives``). Where code asks which rank it is (``rank_reads``), ranks may differ:
``identical_ranks`` then says which others must run too, so that the report is of the worst.
"""
