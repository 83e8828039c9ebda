"""Memory that is given to somebody else, or written by others: nothing is known of what was there."""

import ctypes

import pytest
import torch

try:
    import triton
    import triton.language as tl
except ImportError:  # in the process that runs the tests it may be missing
    triton = None
else:

    @triton.jit
    def copied(source, target, count, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        tl.store(target + at, tl.load(source + at, mask=at < count), mask=at < count)


def known_numbers(count=64):
    return torch.full((count,), 7, dtype=torch.long, device="cuda")


def made_where_another_was(how):
    address = known_numbers().data_ptr()
    if how == "nobody's":
        torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(512))
    elif how == "another segment's":
        torch.cuda.empty_cache()
    if how == "an operator":  # its C++ allocates; ``empty`` is not called
        another = torch.empty(128, dtype=torch.long, device="cuda")[::2].contiguous()
        last = torch.empty(64, dtype=torch.long, device="cuda")
        return [tensor[3].item() for tensor in (another, last) if tensor.data_ptr() == address]
    another = {
        "empty_like": lambda: torch.empty_like(torch.zeros(64, dtype=torch.long), device="cuda"),
        "computed": lambda: torch.randn(64, device="cuda").long(),
        "new_empty": lambda: torch.ones(1, dtype=torch.long, device="cuda").new_empty(64),
    }.get(how, lambda: torch.empty(64, dtype=torch.long, device="cuda"))()
    return [another[3].item()]


WAYS = ["empty", "empty_like", "computed", "new_empty", "an operator", "nobody's", "another segment's"]


@pytest.mark.parametrize("how", WAYS)
def test_a_new_tensor_is_unknown(trace, how):
    """1 is what is answered where nobody knows a whole number, and the report says so."""
    traced = trace(made_where_another_was, how)

    assert traced.value == [1]
    assert len(traced.assumptions) == 1


def kept_alive():
    """What lives stays known."""
    known = known_numbers()
    for _ in range(3):
        other = torch.empty(64, dtype=torch.long, device="cuda")
        del other
    str(torch.ones(3, device="cuda"))
    return known[3].item()


def count_where_another_was():
    """Of eight that nobody knows more than one is taken to be true; of another tensor nobody says so."""
    mask = torch.randn(3, 8, device="cuda") > 0
    address = mask.sum(1).data_ptr()
    another = torch.empty(3, dtype=torch.long, device="cuda")
    return another.data_ptr() == address, another[0].item()


def written_inside_a_kernel():
    """``embedding_dense_backward`` makes zeros and adds unknown gradients to them."""
    weight = torch.zeros(8, 4, device="cuda", requires_grad=True)
    ids = torch.tensor([1, 1], device="cuda")
    (torch.nn.functional.embedding(ids, weight) * torch.randn(2, 4, device="cuda")).sum().backward()
    return weight.grad.sum().item()


def launched_by_the_driver():
    """As Triton's launcher does: which operator it is nobody says."""
    counter = torch.zeros(1, dtype=torch.long, device="cuda")
    ctypes.CDLL(None).cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    return counter.item()


def replayed():
    """On a card the counter is 1 then, and 0 is what it was before."""
    counter = torch.zeros(1, dtype=torch.long, device="cuda")
    counter.add_(0)  # what a capture needs once before it
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        counter.add_(1)
    counter.zero_()
    graph.replay()
    return counter.item()


def launched_on(how):
    if triton is None:
        return "no Triton"
    known, source = known_numbers(), torch.empty(64, dtype=torch.long, device="cuda")
    target = {
        "another": lambda: torch.empty_like(source),
        "the tensor": lambda: known,
        "its end": lambda: known[32:],
        # on the card, where kernels look addresses up (grouped products)
        "a table of addresses": lambda: torch.tensor([known.data_ptr()] * 64, device="cuda"),
    }[how]()
    copied[(1,)](source, target, len(target), block=64)
    return known[3].item()


@pytest.mark.parametrize(
    ("how", "value"), [("another", 7), ("the tensor", 1), ("its end", 1), ("a table of addresses", 1)]
)
def test_what_triton_may_have_written_to_is_unknown_and_no_other(trace, how, value):
    traced = trace(launched_on, how)
    if traced.value == "no Triton":
        pytest.skip("the workers' torch has no Triton beside it")

    assert traced.value == value
    assert len(traced.assumptions) == (value == 1)


def gated(x, y):
    return torch.tanh(x) * torch.sigmoid(y)


def launched_by_torchscript(how):
    """Fused from its third call on: before, it looks at what it is given."""
    known, x = known_numbers(), torch.randn(64, device="cuda")
    fused = torch.jit.trace(gated, (x, x), check_trace=False)
    launches = ctypes.c_ulonglong.in_dll(ctypes.CDLL(None), "stand_in_launches")
    for _ in range(4):
        before = launches.value
        # freed, its memory is the result's
        given = known.view(torch.float32)[:64] if how == "the tensor" else x
        fused(given, given)
    return known[3].item(), launches.value - before


@pytest.mark.parametrize(("how", "value"), [("another", 7), ("the tensor", 1)])
def test_what_torchscript_fuses_says_what_it_takes(trace, how, value):
    """One kernel in the place of three, whose launch is not counted."""
    traced = trace(launched_by_torchscript, how)

    assert traced.value == [value, 0]
    assert len(traced.assumptions) == (value == 1)


def launched_by_text(parameters):
    """As ``torch.cuda._compile_kernel`` does it; the address of another tensor is all that is given."""
    known, other = known_numbers(), torch.empty(64, dtype=torch.long, device="cuda")
    nvrtc, cuda = torch.cuda._utils._get_gpu_rtc_library(), ctypes.CDLL(None)
    program, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    text = f'// its own(s)\nextern "C" __global__\nvoid own({parameters}) {{ }}'.encode()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"own.cu", 0, None, None)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    image = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, image)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    cuda.cuModuleLoadData(ctypes.byref(module), image)
    cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"own")
    pointers = [ctypes.c_void_p(other.data_ptr()) for _ in range(4)]
    arguments = (ctypes.c_void_p * 4)(*[ctypes.addressof(pointer) for pointer in pointers])
    cuda.cuLaunchKernel(kernel, *[ctypes.c_uint(1)] * 7, None, arguments, None)
    return known[3].item()


@pytest.mark.parametrize(
    ("parameters", "is_known"),
    [
        ("", True),
        ("float* to", True),
        ("const unsigned char *__restrict__ from, __half* to, long long count, float by", True),
        ("float** to", False),
        ("Array<char*, 2> to", False),
        ("Pair to", False),
        ("const Pair* from, float* to", False),
        ("float (*function)(float), float* to", False),
        ("float& to", False),
    ],
)
def test_of_a_text_pointers_and_numbers_alone_say_all(trace, parameters, is_known):
    assert (trace(launched_by_text, parameters).value == 7) == is_known


def reports_of(bytes_):
    reports = ctypes.c_ulonglong.in_dll(ctypes.CDLL(None), "stand_in_reports")
    torch.zeros(1, device="cuda")
    before = reports.value
    torch.empty(bytes_, dtype=torch.uint8, device="cuda")
    return reports.value - before


@pytest.mark.parametrize("bytes_", [1, 2**22, 2**30])
def test_pytorchs_allocator_reports_what_it_gives_and_takes_back(stand_in, bytes_):
    """Breaks when torch calls ``c10::reportMemoryUsageToProfiler`` no more, or hides it from other libraries.

    Values of a tensor would then be taken for those of the next one in its memory. Where it is not called at
    all, following says so and raises.
    """
    assert stand_in(reports_of, bytes_, unlimited=True) == 2


def first_of_a_process():
    """An empty tensor may come before all allocations."""
    return list(torch.zeros(0, 3).cuda().shape)


@pytest.mark.parametrize(
    ("body", "value", "count"),
    [
        (kept_alive, 7, 0),
        (count_where_another_was, [True, 1], 1),
        (written_inside_a_kernel, 1, 1),
        (launched_by_the_driver, 1, 1),
        (replayed, 1, 1),
        (first_of_a_process, [0, 3], 0),
    ],
)
def test_what_may_have_been_written_is_unknown_and_what_was_not_is_known(trace, body, value, count):
    traced = trace(body)

    assert traced.value == value
    assert len(traced.assumptions) == count
