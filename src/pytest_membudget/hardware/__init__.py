"""Graphics cards and machines: memory, capability, interconnect."""
