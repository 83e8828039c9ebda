"""What starts a process is estimated anew each time, so compiling starts none."""

import sys

import torch


def trained():
    started = []
    sys.addaudithook(lambda event, args: event in ("subprocess.Popen", "os.fork") and started.append(args[0]))
    region = torch.compile(torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU())).cuda()
    region(torch.zeros(8, 256, device="cuda")).sum().backward()
    return started, torch._dynamo.utils.counters["stats"]["unique_graphs"]


def test_compiling_starts_no_process(trace):
    assert trace(trained).value == [[], 1]
