"""The catalogue of cards."""

import json
import os
from pathlib import Path

import pytest
import yaml

import pytest_membudget
from pytest_membudget.errors import UsageMistake
from pytest_membudget.hardware.gpus import find_gpu, load_gpus
from pytest_membudget.units import GIB, KIB, MIB
from tests.programs import printed

# What the documentation names as usable in `gpu="..."`.
PROMISED = [
    "V100-16GB", "V100-32GB", "T4", "A100-40GB", "A100-80GB", "H100-80GB", "H200-141GB", "B200-180GB", "L4",
    "L40S", "A10", "A10G", "A40", "A6000", "RTX-3090", "RTX-4080", "RTX-4090", "RTX-5090",
]  # fmt: skip
FIGURES = {"total_bytes", "capability", "multiprocessor_count", "context_bytes"}


CATALOGUE = Path(pytest_membudget.__file__).with_name("hardware") / "gpus.yaml"
ENTRIES = yaml.safe_load(CATALOGUE.read_text(encoding="utf-8"))["cards"]
every_card = pytest.mark.parametrize("gpu", load_gpus().values(), ids=lambda gpu: gpu.name)


def test_every_promised_card_is_catalogued_and_no_other():
    assert sorted(load_gpus()) == sorted(PROMISED)


@every_card
def test_a_card_shows_a_little_less_memory_than_its_name_says(gpu):
    nominal_bytes = ENTRIES[gpu.name]["nominal_gib"] * GIB
    assert 0.85 * nominal_bytes <= gpu.total_bytes <= nominal_bytes


@pytest.mark.parametrize("name", [name for name in PROMISED if name.endswith("GB")])
def test_a_card_with_its_size_in_its_name_is_nominally_that_big(name):
    size = name.rpartition("-")[2].removesuffix("GB")
    assert ENTRIES[name]["nominal_gib"] == int(size)


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=list(ENTRIES))
def test_every_figure_has_a_public_source(entry):
    assert set(entry["sources"]) == FIGURES
    assert all("/" in source for source in entry["sources"].values())
    assert all("/" in context["source"] for context in entry.get("contexts", ()))


def test_usable_memory_is_what_the_context_leaves():
    # 14.56 GiB - 135 MiB on a T4, by hand.
    assert find_gpu("T4").usable_bytes == 15_633_680_957 - 141_557_760 == 15_492_123_197


# deviceQuery or cudaDeviceProp output, which prints bytes.
@pytest.mark.parametrize(
    ("name", "total_bytes", "multiprocessor_count"),
    [
        ("V100-16GB", 16928342016, 80),  # caps-tum/mt4g, sample_results/Tesla V100-PCIE-16GB.json
        ("A100-40GB", 42298834944, 108),  # bottlerocket-os/bottlerocket#3873
        ("A100-80GB", 85100068864, 108),  # thamada/nvidia-smi, nvsim/A100SXMx4_deviceQuery.py
        ("H200-141GB", 150109880320, 132),  # benchmarks/measured/NVIDIA-H200
        ("H100-80GB", 85017493504, 132),  # benchmarks/measured/NVIDIA-H100-80GB-HBM3
        ("L4", 23583784960, 58),  # bottlerocket-os/bottlerocket-kernel-kit#139
        ("L40S", 47576711168, 142),  # alvarobartt/cuda-device-query, README.md
        ("RTX-5090", 33680457728, 170),  # NVIDIA/nccl#1637
    ],
)
def test_a_card_has_the_bytes_that_a_query_of_it_printed(name, total_bytes, multiprocessor_count):
    gpu = find_gpu(name)
    assert (gpu.total_bytes, gpu.multiprocessor_count) == (total_bytes, multiprocessor_count)


def test_a_size_printed_in_mib_is_whole_mib():
    assert find_gpu("RTX-4080").total_bytes == 16_049 * MIB  # brainglobe/brainglobe.github.io, speed-up.md


# PyTorch's own out-of-memory messages: "GPU 0 has a total capacity of ... GiB".
@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("T4", "14.56"),  # Zheng-Chong/CatVTON#133
        ("V100-32GB", "31.74"),  # liucongg/ChatGLM-Finetuning#73
        ("A10", "21.99"),  # zai-org/CogVLM#236; not where the bytes are from
        ("A10G", "22.19"),  # meta-pytorch/torchtune#229
        ("RTX-4090", "23.64"),  # 3DTopia/Phidias-Diffusion#8; not where the bytes are from
        ("RTX-5090", "31.37"),  # Wan-Video/Wan2.1#465; not where the bytes are from
        ("B200-180GB", "178.35"),  # stas00/the-art-of-debugging, pytorch/README.md; nor here
    ],
)
def test_a_card_prints_as_in_an_out_of_memory_message(name, gib):
    assert f"{find_gpu(name).total_bytes / GIB:.2f}" == gib


# "this process has A GiB memory in use", "B GiB is allocated by PyTorch", "C MiB is reserved ... but
# unallocated": the context is A - B - C.
@pytest.mark.parametrize(
    ("name", "in_use_gib", "allocated_gib", "unallocated_mib"),
    [
        ("T4", 4.11, 3.72, 264.21),  # Zheng-Chong/CatVTON#133
        ("A100-40GB", 14.25, 12.87, 912.01),  # TianheWu/CoSeR#10
        ("A100-80GB", 9.25, 8.27, 500.38),  # lianqi1008/Control-GIC#6
        ("L4", 20.78, 18.66, 1.89 * KIB),  # ArcInstitute/evo2#190, which says 1.89 GiB
        ("A10G", 22.09, 21.81, 5.10),  # meta-pytorch/torchtune#229
        ("RTX-3090", 22.86, 22.56, 48.63),  # Tencent-Hunyuan/HY-Motion-1.0#3
        ("B200", 168.34, 167.64, 4.62),  # stas00/the-art-of-debugging, pytorch/README.md
        ("RTX-4090", 14.56, 13.86, 213.20),  # 3DTopia/Phidias-Diffusion#8
        ("RTX-5090", 26.89, 25.95, 343.86),  # TrajectoryCrafter/TrajectoryCrafter#20
    ],
)
def test_a_measured_context_is_what_an_out_of_memory_message_leaves_unexplained(
    name, in_use_gib, allocated_gib, unallocated_mib
):
    gpu = find_gpu(name)
    unexplained_mib = (in_use_gib - allocated_gib) * KIB - unallocated_mib
    assert gpu.context_bytes / MIB == pytest.approx(unexplained_mib, abs=1)
    assert gpu.context_confidence == "measured"


def test_every_context_called_measured_is_among_those_checked_above():
    measured = [name for name, gpu in load_gpus().items() if gpu.context_confidence == "measured"]
    assert sorted(measured) == [
        "A100-40GB", "A100-80GB", "A10G", "B200-180GB", "H100-80GB", "H200-141GB", "L4", "RTX-3090",
        "RTX-4090", "RTX-5090", "T4",
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "folder"), [("H100", "NVIDIA-H100-80GB-HBM3"), ("H200", "NVIDIA-H200")])
def test_a_context_is_the_most_that_captured_steps_had_outside_the_allocator(name, folder):
    files = (Path(__file__).parents[2] / "benchmarks/measured" / folder).glob("*/*.json")
    of_groups = ("ddp", "fsdp", "tensor-parallel")  # NCCL's has its own row
    alone = [file for file in files if not file.name.startswith(of_groups)]
    peaks = [json.loads(file.read_text("utf-8"))["measured"]["peak"] for file in alone]
    outside_bytes = max(peak["device"] - peak["reserved"] for peak in peaks)
    assert find_gpu(name).context_bytes == pytest.approx(outside_bytes, abs=MIB / 2)


@every_card
def test_a_measured_context_is_the_largest_that_was_seen_with_lazily_loaded_kernels(gpu):
    seen = [context.size_bytes for context in gpu.contexts]
    assert (gpu.context_bytes == max(seen)) if gpu.context_confidence == "measured" else True


def test_a_context_that_was_seen_keeps_its_cuda():
    # nvidia-smi in huggingface/transformers, docs/source/en/model_memory_anatomy.md
    (seen,) = find_gpu("V100-16GB").contexts
    assert (seen.size_bytes, seen.cuda) == (1343 * MIB, "11.2")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("A6000", "CUDA context of A6000 taken to be 0.29 GiB (typical, not measured on this card)"),
        (
            "H100",
            "CUDA context of H100-80GB taken to be 0.82 GiB (measured on this card, where "
            "0.61 GiB to 0.82 GiB were seen)",
        ),
        ("A10G", "CUDA context of A10G taken to be 0.28 GiB (measured on this card)"),
        (
            "RTX-4090",
            "CUDA context of RTX-4090 taken to be 0.49 GiB (measured on this card, where "
            "0.41 GiB to 0.49 GiB were seen)",
        ),
        (
            "V100-16GB",
            "CUDA context of V100-16GB taken to be 0.39 GiB (typical, not measured on this card; "
            "with CUDA 11.2 1.31 GiB were seen)",
        ),
    ],
)
def test_a_context_is_reported_with_its_source(name, line):
    assert find_gpu(name).context_assumption == line  # 676, 282, 416 to 504, 400 and 1343 MiB


@pytest.mark.parametrize("spelling", ["RTX-4090", "rtx-4090", "RTX_4090", "rtx 4090", "  Rtx  4090 "])
def test_case_and_separators_of_a_name_do_not_matter(spelling):
    assert find_gpu(spelling).name == "RTX-4090"


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100-80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("Tesla T4", "T4"),
        ("NVIDIA RTX A6000", "A6000"),
        ("NVIDIA GeForce RTX 3090", "RTX-3090"),
    ],
)
def test_a_card_is_found_by_the_name_that_its_driver_reports(reported, name):
    assert find_gpu(reported).name == name


@pytest.mark.parametrize("alias", ["H100", "h200", "B200", "A100-80G"])
def test_a_short_name_finds_the_only_card_that_it_can_mean(alias):
    assert find_gpu(alias).name.startswith(alias.upper())


def test_an_unknown_card_is_refused_with_the_value_the_nearest_name_and_all_names():
    with pytest.raises(UsageMistake) as refusal:
        find_gpu("RTX-409O")
    text = str(refusal.value)
    assert "'RTX-409O'" in text
    assert "Did you mean 'RTX-4090'?" in text
    assert all(name in text for name in PROMISED)


@pytest.mark.parametrize(
    ("name", "sizes"), [("A100", "A100-40GB or A100-80GB"), ("v100", "V100-16GB or V100-32GB")]
)
def test_a_name_that_means_two_cards_is_refused_with_both(name, sizes):
    with pytest.raises(UsageMistake, match=f"'{name}' can mean {sizes}: write the one you mean"):
        find_gpu(name)


def test_importing_the_catalogue_imports_neither_yaml_nor_torch():
    source = Path(pytest_membudget.__file__).parents[1]
    code = "import sys, pytest_membudget.hardware.gpus; print({'yaml', 'torch'} & set(sys.modules))"

    assert printed("-c", code, env={**os.environ, "PYTHONPATH": str(source)}).strip() == "set()"
