"""torch.fft on the stand-in: PyTorch allocates the work area; its size is recorded, not published."""

import ctypes

import torch
from allocations import not_modelled, peak_of

#: 64 signals of 64 points.
N = 64
COMPLEX = N * N * 8
#: What is stored of the spectrum of a real signal.
HALF = N * (N // 2 + 1) * 8
NAME = "cufftXtMakePlanMany"

#: The result, and one copy of the complex signals as work area (cufft.c).
TRANSFORMS = {
    "fft": ("complex64", COMPLEX + COMPLEX),
    "fft2": ("complex64", COMPLEX + COMPLEX),
    "rfft": ("float32", HALF + HALF),
    # the full spectrum is filled from the half that is computed
    "fft of reals": ("float32", COMPLEX + HALF),
    # 126 points of each signal from 64 of the spectrum, of which a copy is made: cuFFT overwrites it
    "irfft": ("complex64", N * 126 * 4 + COMPLEX + COMPLEX),
}


def forward(names):
    peaks = []
    for name in names:
        x, kept = torch.zeros(N, N, device="cuda", dtype=getattr(torch, TRANSFORMS[name][0])), []
        peaks.append(peak_of(lambda: kept.append(getattr(torch.fft, name.split()[0])(x))))  # noqa: B023 - called at once
    return peaks, not_modelled()


def test_a_transform_takes_its_result_and_one_copy_of_the_complex_signals(stand_in):
    peaks, names = stand_in(forward, list(TRANSFORMS), not_modelled=[NAME])

    assert names == [NAME]
    assert dict(zip(TRANSFORMS, peaks, strict=True)) == {
        name: expected_bytes for name, (_, expected_bytes) in TRANSFORMS.items()
    }


def both(*names):
    for name in names:
        x = torch.zeros(8, N, device="cuda", requires_grad=True)
        getattr(torch.fft, name)(x).abs().sum().backward()


def test_forward_and_backward_run(stand_in):
    stand_in(both, "fft", "rfft", "fft2", "irfft", "rfftn", "hfft", not_modelled=[NAME])


def work_sizes():
    """Plans as PyTorch makes them: (lengths, batch, kind of input, kind of execution)."""
    real_64, complex_32, complex_64 = 1, 4, 5  # cudaDataType
    library = ctypes.CDLL(None)
    sizes = []
    for lengths, batch, kind, execution in (
        ((100, 100), 1, complex_32, complex_32),
        ((100, 1500), 1, complex_32, complex_32),
        ((512, 512), 32, complex_32, complex_32),
        ((100_000_000,), 10, real_64, complex_64),
    ):
        plan, size, again = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_size_t()
        library.cufftCreate(ctypes.byref(plan))
        points = (ctypes.c_longlong * len(lengths))(*lengths)
        one, zero, none = ctypes.c_longlong(1), ctypes.c_longlong(0), None
        arguments = (plan, len(lengths), points, none, one, zero, kind, none, one, zero, execution)
        library.cufftXtMakePlanMany(*arguments, ctypes.c_longlong(batch), ctypes.byref(size), execution)
        library.cufftGetSize(plan, ctypes.byref(again))
        assert again.value == size.value
        sizes.append(size.value)
    return sizes


def test_work_areas_are_those_that_are_recorded_in_public(stand_in):
    assert stand_in(work_sizes, not_modelled=[NAME]) == [
        80_000,  # arrayfire, issue 1443
        1_200_000,
        64 * 2**20,  # CUDA.jl, issue 894
        8_000_000_160,  # exojax, issue 277
    ]
