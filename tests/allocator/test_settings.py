"""PYTORCH_ALLOC_CONF: what is read, and what is refused.

Where it says so, the text was put to the parser of that torch.
"""

import pytest

from pytest_membudget.allocator.settings import AllocatorSettings
from pytest_membudget.errors import NotAvailable, UsageMistake
from pytest_membudget.units import MIB


def test_nothing_written_means_the_defaults():
    assert AllocatorSettings.parse("") == AllocatorSettings()


def test_all_keys_that_change_sizes_are_read():
    text = (
        "backend:native,expandable_segments:True,max_split_size_mb:128,max_non_split_rounding_mb:64,"
        "large_segment_size_mb:40"
    )

    assert AllocatorSettings.parse(text) == AllocatorSettings(
        expandable_segments=True,
        max_split_size_bytes=128 * MIB,
        max_non_split_rounding_bytes=64 * MIB,
        large_segment_size_bytes=40 * MIB,
    )


def test_white_space_and_a_comma_at_the_end_do_not_matter():
    settings = AllocatorSettings.parse(" max_split_size_mb : 40 ,\texpandable_segments: False,")

    assert settings == AllocatorSettings(max_split_size_bytes=40 * MIB)


def test_of_a_key_written_twice_the_later_counts():
    assert (
        AllocatorSettings.parse("max_split_size_mb:40,max_split_size_mb:60").max_split_size_bytes == 60 * MIB
    )


def test_one_number_of_divisions_holds_for_all_sizes():
    assert AllocatorSettings.parse("roundup_power2_divisions:4").roundup_power2_divisions == (4,) * 16


def test_a_list_of_divisions_names_powers_of_two_in_mib():
    # PyTorch's documentation: 256 MiB: 1, 512 MiB: 2, 1 GiB: 4, larger: 8 (2^8, 2^9, 2^10 MiB)
    settings = AllocatorSettings.parse("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]")

    assert settings.roundup_power2_divisions == (1,) * 9 + (2, 4) + (8,) * 5


def test_sizes_between_two_listed_ones_are_not_divided():
    settings = AllocatorSettings.parse("roundup_power2_divisions:[2:4,8:2]")

    assert settings.roundup_power2_divisions == (4, 4, 0, 2) + (0,) * 12


@pytest.mark.parametrize("text", ["[]", "1", "[256:0,>:1]"])
def test_divisions_that_divide_nothing_are_as_none(text):
    assert AllocatorSettings.parse(f"roundup_power2_divisions:{text}") == AllocatorSettings()


@pytest.mark.parametrize(
    "text",
    [
        "release_lock_on_cudamalloc:True",
        "graph_capture_record_stream_reuse:True",
        "pinned_use_cuda_host_register:True,pinned_num_register_threads:8",
        "pinned_use_background_threads:True",
        # of a device that is full
        "garbage_collection_threshold:0.6,per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True",
        "pinned_reserve_segment_size_mb:64",
        "expandable_segments_reserve:0.5",
        "expandable_segments_reserve_by_class:[serving:0.25,sparse:8G]",
    ],
)
def test_keys_that_change_no_size_are_accepted(text):
    assert AllocatorSettings.parse(text) == AllocatorSettings()


@pytest.mark.parametrize(
    ("text", "named"),
    [  # torch 2.13.0 refuses every one of these
        ("max_split_size_mb:10", "20 or more"),
        ("large_segment_size_mb:64,max_split_size_mb:32", "64 or more"),
        ("max_split_size_mb:32,large_segment_size_mb:64", "64 or more"),
        ("max_split_size_mb:abc", "'max_split_size_mb:abc'"),
        ("max_split_size_mb", "'max_split_size_mb'"),
        ("max_non_split_rounding_mb:10", "20 or more"),
        ("large_segment_size_mb:10", "11 or more"),
        ("garbage_collection_threshold:0.0", r"in \(0, 1\)"),
        ("garbage_collection_threshold:1.0", r"in \(0, 1\)"),
        ("roundup_power2_divisions:3", "'3', not a power of two"),
        ("roundup_power2_divisions:0", "'0', not a power of two"),
        ("roundup_power2_divisions:[3:1]", "'3', not a power of two"),
        ("roundup_power2_divisions:[64:8 128:4]", "not 'MiB:divisions'"),
        ("roundup_power2_divisions:[256:1,512:2,>:4", "cannot read"),
        ("expandable_segments:true", "'True' or 'False'"),
        ("expandable_segments=True", "cannot read"),
        # and so do these, by CUDAAllocatorConfig.cpp and AllocatorConfig.cpp with CUDA
        ("per_process_memory_fraction:1.5", r"in \[0, 1\]"),
        ("per_process_memory_fraction:half", r"in \[0, 1\]"),
        ("backend:other", "'native'"),
        (",expandable_segments:True", "cannot read"),
        ("expandable_segment:True", "expandable_segments"),
        # torch reads 30 here, and says nothing
        ("max_split_size_mb:30.5", "whole MiB"),
    ],
)
def test_what_pytorch_refuses_is_refused_with_what_to_write(text, named):
    with pytest.raises(UsageMistake, match=named):
        AllocatorSettings.parse(text)


def test_a_mistake_names_where_it_was_written():
    with pytest.raises(UsageMistake, match=r"^alloc_conf: 'max_split_size_mb:1'"):
        AllocatorSettings.parse("max_split_size_mb:1", "alloc_conf")


def test_the_drivers_own_allocator_is_not_modelled():
    with pytest.raises(NotAvailable, match=r"backend:cudaMallocAsync.*write 'backend:native'"):
        AllocatorSettings.parse("expandable_segments:True,backend:cudaMallocAsync")
