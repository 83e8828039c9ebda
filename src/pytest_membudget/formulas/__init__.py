"""What a job takes that nobody runs: arithmetic on a decoder's shape, with a margin from published peaks.

``sources`` reads the shape, ``ranks`` splits it, ``model_states`` and ``activations`` say what is held,
``peaks`` which moment takes most; ``margins`` is how far off that may be. It needs no torch.
"""
