"""Bodies that read values from the card: their memory does not depend on what they read, or it does.

What the first take is known without a card, and a strict estimate of them passes; the others
have a caveat or a range.
The budgets are ceilings; what these tests are for is the difference between estimate and measurement, which
``--membudget-report`` has for each.
"""

import pytest

pytestmark = pytest.mark.filterwarnings("default")

INDEPENDENT = [
    "losses_are_logged",
    "losses_are_printed",
    "gradients_are_clipped",
    "a_scaler_steps",
    "training_stops_early",
    "nan_raises",
    "nan_is_skipped",
    "anomalies_are_detected",
    "the_rate_falls_on_a_plateau",
    "a_moving_average",
    "gradients_are_accumulated",
    "the_best_is_saved",
    "the_best_is_copied",
    "mixed_up_images",
    "paths_are_dropped",
    "a_gradient_penalty",
    "tasks_are_weighted",
    "a_spectral_norm",
    "a_focal_loss",
    "accuracies",
    "a_confusion_matrix",
    "metrics_of_torchmetrics",
    "ranks_of_retrieval",
    "a_curve_of_precision",
    "histograms",
    "steps_are_timed",
    "tokens_are_sampled",
    "the_nucleus_is_sampled",
    "beams",
    "transformers_generate",
    "images_are_denoised",
    "proximal_policies",
    "deep_q_learning",
    "soft_actors",
    "boxes_are_matched",
    "a_codebook",
    "a_queue_of_negatives",
    "experts_with_capacity",
    "the_hardest_are_kept",
    "discrete_choices",
    "sinkhorn",
    "conjugate_gradients",
    "a_line_search",
    "power_iteration",
    "samples_consensus",
    "a_state_is_copied_in_memory",
]

DEPENDENT = [
    "rows_of_a_mask",
    "elements_of_a_mask",
    "places",
    "masked_tokens",
    "tokens_are_pruned",
    "hard_negatives",
    "pairs_of_a_class",
    "neighbours",
    "filtered_detections",
    "suppressed_boxes",
    "distinct_numbers",
    "voxels",
    "sparse_gradients",
    "classes_without_a_bound",
    "experts_by_masks",
    "experts_by_counts",
    "packed_sequences",
    "a_batch_is_trimmed",
    "ragged_batches",
    "padding_is_removed",
    "vocabularies_are_cut",
    "exits_are_early",
    "computation_adapts",
    "generation_ends",
    "drafts_are_verified",
    "policies_stop_by_drift",
    "a_scaler_overflows",
    "limited_memory_bfgs",
    "surprises_are_kept",
    "replays_are_filtered",
    "a_gate_chooses_a_branch",
    "layers_are_dropped",
    "patches_are_pasted",
    "graphs_with_loops",
    "attention_over_edges",
    "large_gradients_are_skipped",
    "means_of_clusters",
    "bisection",
    "walks_are_accepted",
]


@pytest.mark.mem_budget(gib=0.4, gpu="H200")
@pytest.mark.parametrize("name", INDEPENDENT)
def test_values_that_change_nothing(name):
    import gpu_values
    import gpu_values_algorithms
    import torch

    torch.manual_seed(0)
    (vars(gpu_values) | vars(gpu_values_algorithms))[name]()


@pytest.mark.mem_budget(gib=0.7, gpu="H200")
@pytest.mark.parametrize("name", DEPENDENT)
def test_values_that_make_sizes(name):
    import gpu_values_sizes
    import torch

    torch.manual_seed(0)
    getattr(gpu_values_sizes, name)()
