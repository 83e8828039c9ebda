"""An optimizer's operators on lists of DTensors: elements that are alike are worked out once."""

import torch


def foreach():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor._sharding_prop import ShardingPropagator

    kind = ShardingPropagator
    asked = []
    original = kind._wrap_with_op_strategy

    def counted(propagator, schema):
        if "_foreach_mul" in schema.op.name():
            asked.append(len(schema.args_schema[0]))
        return original(propagator, schema)

    kind._wrap_with_op_strategy = counted
    mesh = init_device_mesh("cuda", (4,))
    wide, tall = torch.ones(64, 128, device="cuda"), torch.ones(256, 32, device="cuda")
    given = [
        distribute_tensor(one, mesh, [placement])
        for one, placement in [(wide, Shard(0)), (tall, Shard(0)), (wide, Replicate()), (wide, Shard(0))] * 3
    ]
    made = torch._foreach_mul(given, 2.0)
    scaled = torch._foreach_mul(given, [2.0, 3.0] * 6)
    mixed = torch._foreach_mul(given[:2], [given[2], given[1]])  # the first is to be gathered or split
    same = [
        (list(one.shape), str(one.placements), list(one.to_local().shape))
        == (list(other.shape), str(other.placements), list(other.to_local().shape))
        for results in (made, scaled)
        for one, other in zip(results, given, strict=True)
    ]
    return [all(same), len(same), asked, [list(one.to_local().shape) for one in mixed]]


def test_results_are_placed_as_the_elements_they_are_of(trace):
    same, count, asked, mixed = trace(foreach, world_size=4).value

    assert (same, count) == (True, 24)
    # three kinds among twelve; with two numbers in turn wide and tall have one each, and so four
    assert asked[:2] == [3, 4]
    assert mixed == [[16, 128], [64, 32]]
