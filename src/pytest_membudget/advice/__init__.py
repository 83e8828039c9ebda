"""Changes that reduce the memory of a test over its budget, found by running its body with each of them."""
