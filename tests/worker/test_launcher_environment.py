"""What a launcher tells a session of its ranks, in torchrun's and in SLURM's names."""

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.worker.ranks.launcher_environment import (
    Joined,
    forget_launcher,
    is_first,
    local_rank_of,
    ranks_of_environment,
)

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


# What a test that is no rank is not to know

#: As torchrun's agent has it for its processes (worker_env of LocalElasticAgent, torch 2.13).
OF_TORCHRUN = {
    "RANK": "9",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "16",
    "LOCAL_WORLD_SIZE": "8",
    "GROUP_RANK": "1",
    "ROLE_RANK": "9",
    "ROLE_NAME": "default",
    "GROUP_WORLD_SIZE": "2",
    "ROLE_WORLD_SIZE": "16",
    "MASTER_ADDR": "host",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_MAX_RESTARTS": "0",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}
OF_SRUN = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "9", "SLURM_STEP_NUM_TASKS": "16", "SLURM_LOCALID": "1"}


@pytest.mark.parametrize("launcher", [OF_TORCHRUN, OF_SRUN], ids=["torchrun", "srun"])
def test_a_process_that_is_one_of_several_has_a_number_on_its_machine(launcher):
    assert local_rank_of(launcher) == 1


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"},
        {"RANK": "0", "WORLD_SIZE": "many"},
        {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "first"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "4"},  # a batch script
    ],
)
def test_any_other_process_has_none(environment):
    assert local_rank_of(environment) is None


def test_where_no_number_on_the_machine_is_given_there_is_one_machine():
    assert local_rank_of({"RANK": "3", "WORLD_SIZE": "4"}) == 3


@pytest.mark.parametrize("launcher", [OF_TORCHRUN, OF_SRUN], ids=["torchrun", "srun"])
def test_rank_0_is_the_first_and_so_is_a_process_alone(launcher):
    name = "RANK" if "RANK" in launcher else "SLURM_PROCID"

    assert is_first({**launcher, name: "0"})
    assert not is_first(launcher)
    assert is_first({})
    assert is_first({"RANK": "0", "WORLD_SIZE": "1"})


def test_all_that_torchrun_says_is_forgotten():
    environment = {**OF_TORCHRUN, "PATH": "/bin"}

    forget_launcher(environment, keeps_machine=False)

    assert environment == {"PATH": "/bin"}


def test_how_many_gpus_a_machine_has_may_be_kept():
    environment = dict(OF_TORCHRUN)

    forget_launcher(environment, keeps_machine=True)

    assert environment == {"LOCAL_WORLD_SIZE": "8"}


def test_a_task_of_srun_does_not_look_like_one_any_more():
    environment = dict(OF_SRUN)

    forget_launcher(environment, keeps_machine=False)

    assert ranks_of_environment(environment) is None
    assert local_rank_of(environment) is None


def test_what_a_user_has_set_for_one_process_stays():
    environment = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    before = dict(environment)

    forget_launcher(environment, keeps_machine=False)

    assert environment == before
