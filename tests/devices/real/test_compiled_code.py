"""What a line of inductor's code allocates for, from code as torch 2.13 writes it, shortened."""

import pytest
import torch

from pytest_membudget.devices.real.compiled_code import _with_lines, inputs_of_results, kernel_of
from tests.tracking.stacks import frame

CODE = """\
def call(self, args):
    buf0 = empty_strided_cuda((4096, 8192), (8192, 1), torch.float32)
    # Topologically Sorted Source Nodes: [linear], Original ATen: [aten.t, aten.addmm]
    extern_kernels.addmm(primals_2, primals_3, reinterpret_tensor(primals_1, (1024, 8192)), out=buf0)
    buf1 = empty_strided_cuda((4096, 8192), (8192, 1), torch.float32)
    del primals_1
    triton_poi_fused_silu_mul_0.run(buf0, buf1, 33554432, stream=raw_stream0)
    buf3 = empty_strided_cuda((4096, 16), (16, 1), torch.float32)
    buf2 = reinterpret_tensor(buf3, (4096, 8), (16, 1), 0)  # alias
    triton_poi_fused_cat_1.run(buf1, buf2, 32768, stream=raw_stream0)
    pool0 = empty_strided_cuda((65536, ), (1, ), torch.uint8)
    buf4 = alloc_from_pool(pool0, 0, torch.float32, (128, ), (1, ))
    torch.ops.mylib.filled.default(buf4, 1)
    unused = empty_strided_cuda((2, ), (1, ), torch.uint8)
"""


@pytest.fixture
def written(tmp_path):
    """As ``code_hash`` names it: a ``c``, and 51 letters of a digest, the first two its folder's."""
    folder = tmp_path / "tr"
    folder.mkdir()
    path = folder / f"ctr{'a' * 49}.py"
    path.write_text(CODE)
    return str(path)


@pytest.mark.parametrize(
    ("line", "kernel"),
    [
        (2, "aten::addmm"),
        (5, "triton_poi_fused_silu_mul_0"),
        (8, "triton_poi_fused_cat_1"),
        (11, "mylib::filled"),
        (14, ""),
        (4, ""),
        (99, ""),
    ],
    ids=["extern", "triton", "part", "pool", "unused", "no allocation", "no line"],
)
def test_a_buffer_is_that_of_the_first_kernel_that_takes_it(written, line, kernel):
    assert kernel_of([frame("_empty_strided_device"), frame("call", written, line)]) == kernel


def test_a_result_has_the_inputs_that_decide_it():
    """By hand: places 0, 1 and 2 are bits 1, 2 and 4; a constant has none."""

    def function(weight, bias, batch):
        cast = weight.half()
        return cast + bias, batch * cast, cast.t(), torch.ones(1), 3

    graph = torch.fx.symbolic_trace(function).graph

    assert inputs_of_results(graph) == [0b011, 0b101, 0b001, 0, 0]


def test_a_part_for_a_cuda_graph_keeps_its_lines():
    """Inductor takes the text alone (``define_subgraph_launcher_fn``, 2.13), its lines are then unknown."""
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen
    from torch._inductor.utils import IndentedBuffer, LineContext, ValueWithLineMap

    class Wrapper:
        subgraph_definitions = IndentedBuffer()

    define = _with_lines(PythonWrapperCodegen.define_subgraph_launcher_fn)
    node, other = object(), object()
    part = IndentedBuffer()
    for line in (
        "def partition_0(args):",
        LineContext(node),
        "    buf0 = 1",
        LineContext(other),
        "    return",
    ):
        part.writeline(line)
    define(Wrapper, "partition_0", part.getvaluewithlinemap())
    whole = Wrapper.subgraph_definitions.getvaluewithlinemap()

    assert whole == ValueWithLineMap(part.getvalue(), [(2, node), (3, other)])


def test_other_code_has_no_kernel(tmp_path):
    plain = tmp_path / "model.py"
    plain.write_text(CODE)

    assert kernel_of([frame("call", str(plain), 2)]) == ""


def test_code_that_is_gone_has_none(written, tmp_path):
    gone = written.replace(str(tmp_path), str(tmp_path / "elsewhere"))

    assert kernel_of([frame("call", gone, 2)]) == ""
