"""Runs a function of a module as one rank; itself run in a child of the stand-in's server."""

import importlib.util
import sys
from pathlib import Path


def run(path, name, args, where):
    import torch

    from pytest_membudget.devices.stand_in.host.tensors import HostTensors
    from pytest_membudget.devices.stand_in.ranks.numbers import RankNumbers
    from pytest_membudget.devices.stand_in.ranks.ranks import StandInRanks
    from pytest_membudget.devices.stand_in.values.values import Values
    from pytest_membudget.tracking.running_code.source import users_source

    values = Values(users_source())  # kept: it follows as long as it lives
    HostTensors(values.following).install()
    values.install()
    following = values.following
    body = getattr(load(path), name)
    noted = []
    ranks = StandInRanks(
        where["rank"], where["world_size"], users_source(),
        lambda tensor, kept: noted.append([tensor.untyped_storage().nbytes(), kept]),
        RankNumbers(following.known, following.supposed),
        where["rank0_broadcasts"],
    )  # fmt: skip
    ranks.begin()
    torch.cuda.reset_peak_memory_stats()
    return {
        "value": body(*args),
        "allocated": torch.cuda.max_memory_allocated(),
        "reserved": torch.cuda.max_memory_reserved(),
        "noted": noted,
        "groups": {name: [group.size, sorted(group.peers)] for name, group in ranks.groups.items()},
        "broadcasts": ranks.broadcasts(),
        "representatives": ranks.representative_ranks(),
        "rank_assumption": "".join(one.text for one in ranks.rank_caveats()),
        "reads": [f"{one.dtype} {answers}" for one, answers in following.reads.assumed.items()],
    }


def load(path):
    own = Path(__file__)
    sys.path[:0] = [str(Path(path).parent), str(own.parents[2] / "traced" / "cluster")]
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
