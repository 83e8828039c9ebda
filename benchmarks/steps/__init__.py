"""Training and inference steps that are run on a GPU and estimated without one; ``registry`` lists them."""
