"""Runs a function of a module as one rank; itself run in a child of the stand-in's server."""

import importlib.util
import sys
from pathlib import Path


def run(path, name, args, where):

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
    ranks = StandInRanks(
        where["rank"], where["world_size"], users_source(),
        lambda tensor, kept: None,
        RankNumbers(following.known, following.supposed),
        where["rank0_broadcasts"],
        quiet=values.quiet,
    )  # fmt: skip
    ranks.begin()
    return {
        "value": body(*args),
        "groups": {name: [group.size, sorted(group.peers)] for name, group in ranks.groups.items()},
        "broadcasts": ranks.broadcasts(),
        "reads": [f"{one.dtype} {answers}" for one, answers in following.reads.assumed.items()],
    }


def load(path):
    sys.path.insert(0, str(Path(path).parent))
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
