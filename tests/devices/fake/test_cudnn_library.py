"""Asking cuDNN without a GPU: which library is asked, and what becomes of its refusals."""

import ctypes

import pytest

from pytest_membudget.devices.fake import cudnn_library
from pytest_membudget.devices.fake.cudnn_library import CudnnError, Question, find_cudnn


class Library:
    """A cuDNN that makes descriptors, and finishes them or not."""

    def __init__(self, version=90800, finalized=0):
        self.destroyed = 0
        self._finalized = finalized
        self.cudnnGetVersion = lambda: version

    def cudnnBackendCreateDescriptor(self, kind, descriptor):  # noqa: N802
        return 0

    def cudnnBackendFinalize(self, descriptor):  # noqa: N802
        return self._finalized

    def cudnnBackendDestroyDescriptor(self, descriptor):  # noqa: N802
        self.destroyed += 1
        return 0


@pytest.fixture
def found(monkeypatch):
    """What is found where the system's loader gives a library, or raises."""

    def find(library):
        def load(path):
            if isinstance(library, Exception):
                raise library
            return library

        monkeypatch.setattr(cudnn_library.ctypes, "CDLL", load)
        return find_cudnn.__wrapped__()

    return find


def test_a_cudnn_that_plans_without_a_device_is_asked(found):
    library = Library(version=90800)

    assert found(library) is library


def test_an_older_cudnn_is_not_asked(found):
    assert found(Library(version=90701)) is None


def test_without_a_cudnn_there_is_nothing_to_ask(found):
    assert found(OSError("libcudnn_graph.so.9: cannot open shared object file")) is None


@pytest.mark.parametrize("missing", ["cublasLt", "engines_runtime_compiled"])
def test_a_cudnn_that_lacks_what_it_plans_with_is_not_asked(monkeypatch, missing):
    """Asked without cuBLASLt it ends the process; from 9.27 on its engines need the driver's library."""

    def load(path):
        if missing in path:
            raise OSError(path)
        return Library()

    monkeypatch.setattr(cudnn_library, "_path", lambda: "libcudnn_graph.so.9")
    monkeypatch.setattr(cudnn_library.ctypes, "CDLL", load)

    assert find_cudnn.__wrapped__() is None


def test_descriptors_are_destroyed_when_the_question_ends():
    library = Library()
    with Question(library) as question:
        question.describe(17)
        question.describe(1)

    assert library.destroyed == 2


def test_a_refused_description_raises_and_is_destroyed():
    library = Library(finalized=3000)
    with pytest.raises(CudnnError, match="3000"), Question(library) as question:
        question.describe(17)

    assert library.destroyed == 1


@pytest.mark.skipif(find_cudnn() is None, reason="no cuDNN from 9.8 on beside this torch: nothing to ask")
def test_the_real_library_refuses_an_empty_tensor():
    with pytest.raises(CudnnError), Question(find_cudnn()) as question:
        question.describe(17)


def test_values_go_to_c_as_their_type_says():
    array = cudnn_library._array(cudnn_library.INT64, [1, 2])

    assert (array._type_, list(array)) == (ctypes.c_int64, [1, 2])
