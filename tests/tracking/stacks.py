"""Frames of stacks as PyTorch records them: Python's, and C++'s with them."""


def frame(name, filename="??", line=0):
    return {"filename": filename, "line": line, "name": name}


ALLOCATOR = frame("c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(signed char)")
BMM = frame("at::_ops::bmm::redispatch(c10::DispatchKeySet, at::Tensor const&)")
LINEAR = frame("forward", "/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py", 125)
USERS = frame("forward", "/home/u/repo/models/attention.py", 41)
PYTEST = frame("pytest_pyfunc_call", "/venv/lib/python3.12/site-packages/_pytest/python.py", 159)
NODE = frame("torch::autograd::generated::BmmBackward0::apply(std::vector<at::Tensor>&&)")
ENGINE = frame("torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)")
ACCUMULATE = frame("torch::autograd::AccumulateGrad::apply(std::vector<at::Tensor>&&)")
#: what inductor has written: torch/_inductor/codecache.py, 2.13
WRITTEN = frame("call", f"/tmp/torchinductor_u/tr/ctr{'7' * 49}.py", 108)
