"""Children of a process that has asked for CUDA: a test's own goes on with it, those that it forks do not."""

import pytest


def in_child(body):
    """What ``body`` says in a child of this process."""
    import os

    read_fd, write_fd = os.pipe()
    if os.fork() == 0:
        try:
            said = body()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write_fd, said.encode()[:4000])
        os._exit(0)
    os.close(write_fd)
    os.wait()
    with os.fdopen(read_fd) as file:
        return file.read()


def held():
    import torch

    return str(torch.empty(1024, device="cuda").nbytes)


def allowed():
    from pytest_membudget.devices.stand_in.after_fork import allow_cuda_after_fork

    allow_cuda_after_fork()
    return held()


def forks_again():
    return f"{allowed()}, then {in_child(held)}"


def after(asking, body):
    import torch

    if asking == "available":
        assert torch.cuda.is_available()
    elif asking == "used":
        torch.empty(1, device="cuda")
    elif asking == "compiled for":
        assert torch.cuda.get_arch_list()
    return in_child({"held": held, "allowed": allowed, "forks again": forks_again}[body])


@pytest.mark.parametrize("asking", ["nothing", "available", "used", "compiled for"])
def test_a_child_that_is_let_goes_on(stand_in, asking):
    assert stand_in(after, asking, "allowed") == "4096"


@pytest.mark.parametrize("asking", ["available", "used"])
def test_pytorch_refuses_the_others(stand_in, asking):
    """Without it there would be nothing to allow; and a test's own children are told what a GPU tells."""
    assert "CUDA" in stand_in(after, asking, "held")
    again = stand_in(after, asking, "forks again")
    assert again.startswith("4096, then ")
    assert again.endswith("you must use the 'spawn' start method")
