"""What a launcher has told this process: which of how many ranks it is, and where they meet."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from ...errors import UsageMistake

_HOSTS = 'MASTER_ADDR=$(scontrol show hostnames "$SLURM_STEP_NODELIST" | head -n 1)'
#: torch/distributed/elastic/agent/server/local_elastic_agent.py, 2.13: its agent keeps the store
_AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE"

#: What tells a process that it is one of several: the names that torch's agent sets (the same file, 2.13),
#: and those of SLURM's that ``ranks_of_environment`` reads.
_LAUNCHERS = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE"),
    *("ROLE_NAME", "MASTER_ADDR", "MASTER_PORT", _AGENT_STORE, "TORCHELASTIC_RUN_ID"),
    *("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"),
    *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"),
)
_MACHINE = "LOCAL_WORLD_SIZE"


@dataclass(frozen=True, slots=True)
class Joined:
    """This session as one rank among those that a launcher has started."""

    rank: int
    world_size: int
    local_rank: int
    master_addr: str
    master_port: int
    hosts_store: bool
    """It is this rank that keeps the store at the address: there is no agent that does."""

    def variables(self) -> dict[str, str]:
        """The environment of a rank's process, in torchrun's names."""
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_RANK": str(self.local_rank),
            "MASTER_ADDR": self.master_addr,
            "MASTER_PORT": str(self.master_port),
        }


def ranks_of_environment(environment: Mapping[str, str]) -> Joined | None:
    """The rank that ``environment`` names; None if no launcher has started more than one process.

    torchrun's names (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT) come before those that srun
    gives a step's tasks (SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS, SLURM_LOCALID). A batch script
    has some of SLURM's too, but no SLURM_STEP_ID: it is no task. Raises ``UsageMistake`` for values that
    cannot be used, and where no MASTER_ADDR and MASTER_PORT say where the ranks meet.
    """
    names = _names_of(environment)
    if names is None:
        return None
    rank_name, size_name, local_name = names
    world_size = _whole(environment, size_name, 1)
    if world_size == 1:
        return None
    rank = _whole(environment, rank_name, 0)
    if rank >= world_size:
        raise UsageMistake(
            f"{rank_name}={rank}: with {size_name}={world_size} ranks are 0 to {world_size - 1}"
        )
    address, port = _meeting_place(environment, names)
    return Joined(
        rank=rank,
        world_size=world_size,
        local_rank=_whole(environment, local_name, 0) if local_name in environment else rank,
        master_addr=address,
        master_port=port,
        hosts_store=rank == 0 and environment.get(_AGENT_STORE) != "True",
    )


def local_rank_of(environment: Mapping[str, str]) -> int | None:
    """The number of this process on its machine, by its launcher; None if that has started no more than one.

    It never raises: where a test needs no other rank, what a launcher says amiss is not its concern.
    """
    names = _names_of(environment)
    if names is None or _number(environment, names[1]) in (None, 1):
        return None
    return _number(environment, names[2] if names[2] in environment else names[0])


def is_first(environment: Mapping[str, str]) -> bool:
    """Whether this process is rank 0 of a launcher's, or none has started more than one."""
    names = _names_of(environment)
    return names is None or _number(environment, names[1]) in (None, 1) or environment[names[0]] == "0"


def forget_launcher(environment: MutableMapping[str, str], *, keeps_machine: bool) -> None:
    """Take out of ``environment`` that a launcher has started this process as one of several.

    What a test runs as is not what its session was started as. ``keeps_machine``: leave how many GPUs a
    machine has.
    """
    if local_rank_of(environment) is None:
        return
    for name in _LAUNCHERS if keeps_machine else (*_LAUNCHERS, _MACHINE):
        environment.pop(name, None)


def _number(environment: Mapping[str, str], name: str) -> int | None:
    value = environment[name]
    return int(value) if value.isascii() and value.isdigit() else None


def _names_of(environment: Mapping[str, str]) -> tuple[str, str, str] | None:
    """The variables of the rank, of how many there are, and of the rank on its machine."""
    if "RANK" in environment and "WORLD_SIZE" in environment:
        return "RANK", "WORLD_SIZE", "LOCAL_RANK"
    if "SLURM_STEP_ID" in environment and "SLURM_PROCID" in environment:
        for size_name in ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"):
            if size_name in environment:
                return "SLURM_PROCID", size_name, "SLURM_LOCALID"
    return None


def _whole(environment: Mapping[str, str], name: str, least: int) -> int:
    value = environment[name]
    if not (value.isascii() and value.isdigit() and int(value) >= least):
        raise UsageMistake(f"{name}={value!r}: a launcher gives a whole number from {least} on")
    return int(value)


def _meeting_place(environment: Mapping[str, str], names: tuple[str, str, str]) -> tuple[str, int]:
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not environment.get(name)]
    if missing:
        given = f"{names[0]} and {names[1]} are set, but not {' and '.join(missing)}"
        raise UsageMistake(
            f"{given}, where the ranks meet; export {_HOSTS} and a free port there, MASTER_PORT=29500"
        )
    port = _whole(environment, "MASTER_PORT", 1)
    if port > 65535:
        raise UsageMistake(f"MASTER_PORT={port}: write a port, 1 to 65535")
    return environment["MASTER_ADDR"], port
