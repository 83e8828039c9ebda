"""What users write: read with the line of every key, checked against one description of its fields."""
