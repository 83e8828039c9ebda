"""What clients/test_vision.py comes to, held to arithmetic by hand and published counts."""

import importlib.util

import pytest

from tests.report_fixtures import caveat_texts

MISSING = [name for name in ("torchvision", "timm") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (tox -e clients-vision has them)"
)

#: torchvision's documentation of its models: resnet50, fasterrcnn_resnet50_fpn.
RESNET_50, FASTER_RCNN = 25_557_032, 41_755_286


@pytest.fixture(scope="module")
def rows(rows_of):
    return {row["nodeid"].rpartition("::")[2]: row["estimates"][0] for row in rows_of("vision")}


@pytest.mark.parametrize("memory_format", ["nchw", "nhwc"])
def test_resnet50_has_fp32_weights_and_their_momentum(rows, memory_format):
    taken = rows[f"test_resnet50[{memory_format}]"]["components"]

    assert taken["parameters"] == taken["optimizer_states"] == 4 * RESNET_50


def test_a_detector_has_its_weights_and_says_what_it_took_for_granted(rows):
    for name in ("test_detector_learns", "test_detector_looks"):
        run = rows[name]
        weights = run["components"]["parameters"] + run["components"].get("frozen_parameters", 0)
        assert weights >= 4 * FASTER_RCNN
        assert any("torchvision.nms.default" in text for text in caveat_texts(run))


def test_segmentation_and_augmentation_have_figures(rows):
    """16 images of bytes, 256 x 256; of floats, 224 x 224, before and after normalising by three pairs."""
    assert rows["test_segmentation"]["components"]["activations"] > 0
    taken = rows["test_augmentation_on_the_gpu"]["components"]
    assert taken["inputs"] == 16 * 3 * 256 * 256
    assert taken["temporaries"] + taken["activations"] == 2 * 16 * 3 * 224 * 224 * 4 + 2 * 3 * 4


@pytest.mark.parametrize(
    "name", ["convnext_tiny", "efficientnet_b0", "swin_tiny_patch4_window7_224", "vit_small_patch16_224"]
)
def test_an_average_of_the_weights_is_a_second_copy(rows, name):
    taken = rows[f"test_timm[{name}]"]["components"]

    assert taken["frozen_parameters"] == taken["parameters"]
    assert taken["optimizer_states"] == pytest.approx(2 * taken["parameters"], rel=1e-3)
