from shared_bodies import of_fake_tensors

globals().update(of_fake_tensors("test_read_floats"))
