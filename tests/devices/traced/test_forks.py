"""Processes that a test forks: on cuda they fail as on a real device, on the host they run."""

import multiprocessing

import torch


def allocate(device):
    torch.empty(2**20, device=device)


def exit_code_of_a_fork(device, first):
    kept = torch.empty(2**10, device=first)
    process = multiprocessing.get_context("fork").Process(target=allocate, args=(device,))
    process.start()
    process.join()
    return [process.exitcode, kept.nbytes]


def test_cuda_does_not_survive_a_fork_once_it_is_in_use(trace):
    """As torch.cuda: 'Cannot re-initialize CUDA in forked subprocess'."""
    assert trace(exit_code_of_a_fork, "cuda", "cuda").value == [1, 2**12]


def test_a_forked_process_may_work_on_the_host(trace):
    assert trace(exit_code_of_a_fork, "cpu", "cuda").value == [0, 2**12]


def test_a_forked_process_may_be_the_first_on_cuda(trace):
    assert trace(exit_code_of_a_fork, "cuda", "cpu").value == [0, 2**12]
