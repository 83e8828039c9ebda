"""A test may form its process group after its device has begun."""

import pytest
import torch.distributed as dist

from pytest_membudget.devices.real.group_begins import after_each_group, put


@pytest.fixture
def formed():
    """What has been formed, and a store for a group of one."""
    original, sizes = dist.init_process_group, []
    after_each_group(lambda: sizes.append(dist.get_world_size()))
    yield sizes
    put("init_process_group", original)
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.parametrize("owner", [dist, dist.distributed_c10d], ids=["public", "private"])
def test_what_follows_is_called_when_the_group_is_there(formed, owner):
    owner.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

    assert formed == [1]
