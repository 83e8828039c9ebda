"""What is not here: draws on the host are PyTorch's own."""

from shared_bodies import of_fake_tensors

globals().update(of_fake_tensors("test_draws", without=("test_layer_drop_drops_no_layer",)))
