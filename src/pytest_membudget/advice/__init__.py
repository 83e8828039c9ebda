"""What lowers the memory of a test over its budget, by running its body again with single changes."""
