from shared_bodies import of_fake_tensors

globals().update(of_fake_tensors("test_unknown_shapes", without=("test_tensor_split_takes_a_tensor",)))
