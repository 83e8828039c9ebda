"""Shows results: texts that several formats share; the formats are in the folders."""
