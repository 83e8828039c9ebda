"""What a launcher tells a session of its ranks, in torchrun's and in SLURM's names."""

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.launcher_environment import Joined, ranks_of_environment

MEETING = {"MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
TORCHRUN = {
    **MEETING,
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}
SRUN = {
    **MEETING,
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "1",
}


def test_without_a_launcher_there_are_no_ranks_to_join():
    assert ranks_of_environment({"PATH": "/bin"}) is None


def test_torchrun_names_rank_size_and_place():
    assert ranks_of_environment(TORCHRUN) == Joined(5, 8, 1, "node1", 29500, hosts_store=False)


def test_srun_names_rank_size_and_place():
    assert ranks_of_environment(SRUN) == Joined(3, 4, 1, "node1", 29500, hosts_store=False)


def test_an_older_srun_has_the_jobs_tasks_only():
    environment = {name: value for name, value in SRUN.items() if name != "SLURM_STEP_NUM_TASKS"}

    assert ranks_of_environment(environment) == Joined(3, 4, 1, "node1", 29500, hosts_store=False)


def test_torchruns_names_come_before_those_of_the_step_that_torchrun_runs_in():
    joined = ranks_of_environment({**SRUN, **TORCHRUN})

    assert (joined.rank, joined.world_size) == (5, 8)


def test_a_batch_script_is_no_task_of_a_step():
    environment = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}

    assert ranks_of_environment(environment) is None


def test_a_launcher_of_one_process_leaves_nothing_to_join():
    assert ranks_of_environment({"RANK": "0", "WORLD_SIZE": "1"}) is None


@pytest.mark.parametrize("missing", ["RANK", "WORLD_SIZE"])
def test_half_of_torchruns_names_are_somebody_elses(missing):
    assert ranks_of_environment({name: value for name, value in TORCHRUN.items() if name != missing}) is None


def test_rank_0_keeps_the_store_where_no_agent_does():
    assert ranks_of_environment({**SRUN, "SLURM_PROCID": "0"}).hosts_store
    assert not ranks_of_environment({**TORCHRUN, "RANK": "0"}).hosts_store


def test_without_a_local_rank_all_are_on_one_machine():
    environment = {name: value for name, value in TORCHRUN.items() if name != "LOCAL_RANK"}

    assert ranks_of_environment(environment).local_rank == 5


def test_a_ranks_process_has_torchruns_names_whoever_launched():
    assert ranks_of_environment(SRUN).variables() == {
        **MEETING,
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
    }


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"RANK": "8"}, "RANK=8: with WORLD_SIZE=8 ranks are 0 to 7"),
        ({"RANK": "first"}, "RANK='first': a launcher gives a whole number from 0 on"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE='0': a launcher gives a whole number from 1 on"),
        ({"LOCAL_RANK": "-1"}, "LOCAL_RANK='-1'"),
        ({"MASTER_PORT": "70000"}, "MASTER_PORT=70000: write a port, 1 to 65535"),
        (
            {"MASTER_ADDR": ""},
            "RANK and WORLD_SIZE are set, but not MASTER_ADDR, where the ranks meet; export",
        ),
    ],
)
def test_a_value_that_cannot_be_used_is_named(changed, words):
    with pytest.raises(UsageMistake) as error:
        ranks_of_environment({**TORCHRUN, **changed})

    assert words in str(error.value)


def test_srun_without_a_place_to_meet_is_told_what_to_export():
    environment = {name: value for name, value in SRUN.items() if name not in MEETING}

    with pytest.raises(UsageMistake, match=r"not MASTER_ADDR and MASTER_PORT.*scontrol show hostnames"):
        ranks_of_environment(environment)
