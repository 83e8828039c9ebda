"""What is not here: draws and printing on the host compute as always; ``kl_div`` of a tebibyte takes four."""

from shared_bodies import of_fake_tensors

globals().update(
    of_fake_tensors(
        "test_reads",
        without=(
            "test_different_values_of_one_line_are_reported_together",
            "test_a_whole_tensor_is_one_read",
            "test_tensors_print_as_tensors_and_are_not_read_for_it",
            "test_what_is_expanded_is_not_computed_element_by_element",
        ),
    )
)
