"""torch.compile on cards that are not there: PyTorch's own compiler, and Triton's, with nothing launched."""

import os

import torch

from pytest_membudget.measured.recorded_run import RecordedRun
from pytest_membudget.stand_in.environment import INDUCTOR_VARIABLE

MIB = 2**20


def peaks_of_a_chain(folder):
    os.environ[INDUCTOR_VARIABLE] = folder
    run = RecordedRun()
    run.begin()

    def chain(x):
        return ((x * 2).sin() + 1).cos()

    compiled = torch.compile(chain, fullgraph=True)
    x = torch.empty(MIB, device="cuda")
    peaks = []
    for function in (chain, compiled, compiled):
        torch.cuda.reset_peak_memory_stats()
        function(x)
        peaks.append(torch.cuda.max_memory_allocated())
    run.end()
    return peaks


def test_a_fused_chain_has_no_intermediate_results(stand_in, tmp_path):
    eager, first, later = stand_in(peaks_of_a_chain, str(tmp_path))
    # 4 MiB each: the operand, and of the chain the two that an operator works with; fused, the result alone
    assert (eager, later) == (12 * MIB, 8 * MIB)
    # the first call tunes: between two tries it writes over the L2 cache (40 MiB: NVIDIA A100 white paper)
    assert first == 8 * MIB + 40 * MIB
    assert list(tmp_path.rglob("*.py"))  # inductor's code: it was compiled


def folders_of_two_tests(around):
    from pytest_membudget.stand_in.device import _forget_compiled_code

    folders = []
    for _ in range(2):
        os.environ[INDUCTOR_VARIABLE] = around
        _forget_compiled_code()
        folders.append(os.environ[INDUCTOR_VARIABLE])
    return folders


def test_no_test_finds_what_another_one_has_compiled(stand_in, tmp_path):
    first, second = stand_in(folders_of_two_tests, str(tmp_path / "inductor"))
    assert first != second
    assert all(os.path.dirname(folder) == str(tmp_path / "inductor") for folder in (first, second))
    assert not os.listdir(first)
