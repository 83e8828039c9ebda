"""Graphics cards and machines: memory, capability, interconnect.

Figures are data (``gpus.yaml``, with a source each) and rules over them (``nccl``, ``machines``). Nothing
here asks a driver.
"""
