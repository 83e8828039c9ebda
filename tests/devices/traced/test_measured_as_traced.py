"""The measuring device, run on the virtual one as if it were real: what it makes of a run is what was traced.

Two ways to one figure: the tracker sees every operator; the measurement only hooks, and the history that the
allocator has kept.
"""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from pytest_membudget.memory_report import MemoryReport

virtual_device = None  # the device server's


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, values):
        return values + self.down(torch.nn.functional.gelu(self.up(self.norm(values))))


class Net(nn.Module):
    def __init__(self, checkpointed=False, width=512):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.checkpointed = checkpointed
        self.register_buffer("scale", torch.ones(width))

    def forward(self, values):
        for block in self.blocks:
            values = checkpoint(block, values, use_reentrant=False) if self.checkpointed else block(values)
        return values * self.scale


def trained(checkpointed=False):
    model = Net(checkpointed).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        batch = torch.randn(256, 512, device="cuda")
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def trained_with_checkpoints():
    trained(checkpointed=True)


def with_frozen_teacher():
    teacher, student = Net().cuda(), Net().cuda()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        batch = torch.randn(256, 512, device="cuda")
        with torch.no_grad():
            target = teacher(batch)
        (student(batch) - target).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def inferred():
    model = Net().cuda().eval()
    with torch.inference_mode():
        model(torch.randn(2048, 512, device="cuda"))


def autocast():
    model = Net().cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(torch.randn(256, 512, device="cuda")).float().square().mean()
    loss.backward()


def stepped_in_backward():
    model = Net().cuda()
    optimizers = {p: torch.optim.Adam([p], foreach=False) for p in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for _ in range(2):
        model(torch.randn(256, 512, device="cuda")).square().mean().backward()


def accumulated():
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for micro_batch in range(4):
        model(torch.randn(256, 512, device="cuda")).square().mean().backward()
        if micro_batch % 2:
            optimizer.step()
            optimizer.zero_grad()


def clipped():
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.randn(256, 512, device="cuda")).square().mean().backward()
        kept = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return kept


def averaged():
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    average = {name: value.detach().clone() for name, value in model.state_dict().items()}
    for _ in range(2):
        model(torch.randn(256, 512, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        for name, value in model.state_dict().items():
            average[name].lerp_(value, 0.01)


def without_modules():
    weights = [torch.randn(512, 512, device="cuda", requires_grad=True) for _ in range(3)]
    optimizer = torch.optim.AdamW(weights)
    for _ in range(2):
        values = torch.randn(256, 512, device="cuda")
        for weight in weights:
            values = torch.nn.functional.gelu(values @ weight)
        values.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def measured(name):
    from pytest_membudget.devices.real.device import RealCudaDevice

    tracker = virtual_device._tracker
    device = RealCudaDevice(lambda tensor: tracker.record_of(tensor).block.address)
    device.begin()
    globals()[name]()
    return device.end(metric="allocated", root="").to_json()


@pytest.mark.parametrize(
    "body",
    [
        trained,
        trained_with_checkpoints,
        with_frozen_teacher,
        inferred,
        autocast,
        stepped_in_backward,
        accumulated,
        clipped,
        averaged,
        without_modules,
    ],
    ids=lambda f: f.__name__,
)
def test_a_measurement_finds_the_components_of_the_trace(trace, body):
    traced = trace(measured, body.__name__)
    report = MemoryReport.from_json(traced.value)

    assert report.kind == "measured"
    assert report.peak.allocated_bytes == traced.allocated
    assert report.peak.reserved_bytes == traced.report.peak.reserved_bytes
    assert {name: size for name, size in report.components.items() if size} == {
        name: size for name, size in traced.report.components.items() if size
    }
