"""What clients/test_vision.py comes to, held to arithmetic by hand and published counts."""

import pytest

from tests.report_fixtures import caveat_texts

NEEDED = ("torchvision", "timm")
#: torchvision's documentation of its models: resnet50, fasterrcnn_resnet50_fpn.
RESNET_50, FASTER_RCNN = 25_557_032, 41_755_286
#: Of 53 batch norms, and of the last layer.
NORMS, LAST = 2 * 26_560, 2048 * 1000 + 1000
#: ``num_params`` of the same in torchvision.models (0.28); of ViT-S 12 blocks of 384, their patches and head.
PARAMETERS = {
    "convnext_tiny": 28_589_128,
    "efficientnet_b0": 5_288_548,
    "swin_tiny_patch4_window7_224": 28_288_354,
    "vit_small_patch16_224": 12 * (12 * 384**2 + 13 * 384) + (16**2 * 3 + 1 + 1 + 197 + 2) * 384 + 385_000,
}


@pytest.fixture(scope="module")
def rows(rows_of):
    return {row["nodeid"].rpartition("::")[2]: row["estimates"][0] for row in rows_of("vision")}


@pytest.mark.parametrize("memory_format", ["nchw", "nhwc"])
def test_resnet50_has_fp32_weights_and_their_momentum(rows, memory_format):
    """Convolutions have their weights in bf16 too, by autocast; the last layer's is gone at the peak."""
    taken = rows[f"test_resnet50[{memory_format}]"]["components"]

    assert taken["parameters"] == 4 * RESNET_50 + 2 * (RESNET_50 - NORMS - LAST)
    assert taken["optimizer_states"] == 4 * RESNET_50


def test_a_detector_has_its_weights_and_says_what_it_took_for_granted(rows):
    for name in ("test_detector_learns", "test_detector_looks"):
        run = rows[name]
        weights = run["components"]["parameters"] + run["components"].get("frozen_parameters", 0)
        assert weights >= 4 * FASTER_RCNN
        assert any("torchvision/ops/boxes.py" in text for text in caveat_texts(run))


def test_segmentation_and_augmentation_have_figures(rows):
    """16 images of bytes, 256 x 256; of floats, 224 x 224, before and after normalising by three pairs.

    Or, where the part that is drawn is larger, that part as floats, up to the whole image.
    """
    assert rows["test_segmentation"]["components"]["activations"] > 0
    taken = rows["test_augmentation_on_the_gpu"]["components"]
    bytes_of = {side: 16 * 3 * side**2 * 4 for side in (224, 256)}
    assert taken["inputs"] == 16 * 3 * 256 * 256
    assert 2 * bytes_of[224] + 2 * 3 * 4 <= taken["temporaries"] <= bytes_of[224] + bytes_of[256]


@pytest.mark.parametrize("name", PARAMETERS)
def test_an_average_of_the_weights_is_a_second_copy(rows, name):
    """Besides the weights there are autocast's copies in bf16, of all of them at most."""
    taken, count = rows[f"test_timm[{name}]"]["components"], PARAMETERS[name]

    assert taken["frozen_parameters"] == 4 * count
    assert 4 * count < taken["parameters"] < (4 + 2) * count
    assert taken["optimizer_states"] == pytest.approx(2 * 4 * count, rel=1e-3)
