"""Threads on the stand-in: libraries load weights and move batches in pools of them."""

import concurrent.futures
import threading

import torch
from torch import nn

MIB = 2**20


def in_a_thread(body):
    result = []
    thread = threading.Thread(target=lambda: result.append(body()))
    thread.start()
    thread.join()
    return result[0]


def moved():
    def move():
        return torch.zeros(512, 512).to("cuda"), torch.tensor([1, 2], device="cuda").tolist()

    tensor, values = in_a_thread(move)
    return str(tensor.device), values, torch.cuda.memory_allocated()


def test_what_a_thread_allocates_is_counted(trace):
    traced = trace(moved)

    assert traced.value == ["cuda:0", [1, 2], MIB]
    assert traced.allocated >= MIB


def loaded_in_a_pool():
    weights = [torch.zeros(512, 512) for _ in range(16)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        on_device = list(pool.map(lambda weight: weight.to("cuda", torch.bfloat16) + 1, weights))
    return {str(tensor.device) for tensor in on_device} == {"cuda:0"}, torch.cuda.memory_allocated()


def test_a_pool_of_threads_loads_weights(trace):
    assert trace(loaded_in_a_pool).value == [True, 8 * MIB]


def trained_in_a_thread():
    def train():
        model = nn.Linear(512, 512, bias=False, device="cuda")
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            model(torch.randn(1, 512, device="cuda")).sum().backward()
            optimizer.step()

    in_a_thread(train)


def test_a_step_in_a_thread_is_a_step(trace):
    traced = trace(trained_in_a_thread)

    assert traced.parameters == traced.gradients == MIB
    assert traced.optimizer_states == 2 * MIB


def many_at_once():
    """Threads that run operators, and one that only looks at devices meanwhile."""
    seen, done = set(), threading.Event()
    x = torch.ones(8, 8, device="cuda")

    def look():
        while not done.is_set():
            seen.add(x.device.type)

    def work():
        for _ in range(100):
            y = torch.ones(8, 8, device="cuda") @ x
            assert y.device.type == "cuda"
        return (y > 0).shape[0]

    looker = threading.Thread(target=look)
    looker.start()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = [future.result() for future in [pool.submit(work) for _ in range(8)]]
    done.set()
    looker.join()
    return sorted(seen), results, torch.cuda.memory_allocated() < 100_000_000


def test_threads_do_not_disturb_each_other(trace):
    assert trace(many_at_once).value == [["cuda"], [8] * 8, True]
