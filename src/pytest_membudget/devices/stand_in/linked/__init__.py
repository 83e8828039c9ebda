"""Libraries that take the places of NVIDIA's under torch: written into the cache, without a compiler.

torch's own ELF files say which sonames, symbol versions and functions they ask for; a library for each is
written byte by byte, whose functions refuse by name. So a new release of CUDA needs no list here.
``release_numbers`` has the versions by which torch decides.
"""
