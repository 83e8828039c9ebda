"""What is not here: figures with the workspace of torch 2.13; ``test_routed_memory`` has others."""

from shared_bodies import of_fake_tensors

globals().update(
    of_fake_tensors(
        "test_routing",
        without=(
            "test_experts_together_save_each_token_as_often_as_it_was_sent",
            "test_the_busiest_expert_makes_the_peak",
            "test_each_row_chooses_different_ones_that_are_there",  # of functions that both devices share
            "test_how_many_choose_each",
        ),
    )
)
