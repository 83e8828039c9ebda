"""What a test that raised is told to do."""

import pytest

from pytest_membudget.worker.server.one_test import failures

#: As torch 2.13 raises it.
WITHOUT_A_KERNEL = (
    "Could not run '{name}' with arguments from the 'CUDA' backend. This could be because the operator "
    "doesn't exist for this backend, or was omitted during the selective/custom build process"
)


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    monkeypatch.setattr(failures, "cpu_builds", lambda: {"torchvision": "0.28.0"})


def test_operators_of_a_cpu_build_are_told_the_command_that_brings_those_for_cuda():
    error = NotImplementedError(WITHOUT_A_KERNEL.format(name="torchvision::nms"))

    assert failures._remedy(error) == (
        "\nThe environment's torchvision is a CPU build: run `membudget install-torch --with torchvision`."
    )


@pytest.mark.parametrize(
    "error",
    [
        NotImplementedError(WITHOUT_A_KERNEL.format(name="mine::nms")),
        NotImplementedError("torchvision::nms is to be written"),
        RuntimeError(WITHOUT_A_KERNEL.format(name="torchvision::nms")),
    ],
)
def test_other_errors_are_not(error):
    assert failures._remedy(error) == ""


def test_torch_raises_it_in_these_words():
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define("membudget_test(Tensor x) -> Tensor")
    library.impl("membudget_test", lambda x: x, "CPU")

    with pytest.raises(NotImplementedError) as caught:
        torch.ops.torchvision.membudget_test(torch.ones(1).to_sparse())

    assert "--with torchvision" in failures._remedy(
        NotImplementedError(str(caught.value).replace("'SparseCPU' backend", "'CUDA' backend"))
    )


def test_colours_of_a_messages_words_are_left_out(request):
    with pytest.raises(ValueError, match="two options") as caught:
        raise ValueError("two options, \x1b[1mdo one\x1b[0m.")

    answer = failures.explain(request.node, "call", caught, "the stand-in")

    assert answer.reason.endswith("on the stand-in: two options, do one.")
    assert "ValueError: two options, do one." in answer.details
