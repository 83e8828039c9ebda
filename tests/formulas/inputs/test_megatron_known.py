"""Every argument of Megatron-LM is read, listed as not modelled, or a mistake with what to write instead.

Names: ``add_megatron_arguments`` of NVIDIA/Megatron-LM d98e8a64ddf34856e74b24714e3bedb2f5a39553.
"""

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.formulas.estimate import estimate
from pytest_membudget.formulas.inputs import megatron_names as names
from pytest_membudget.formulas.inputs.megatron_arguments import read_megatron
from pytest_membudget.formulas.inputs.megatron_known import OF_THE_JOB, OF_THE_MODEL
from pytest_membudget.formulas.megatron_job import megatron_job

SMALL = {
    "num-layers": 4,
    "hidden-size": 64,
    "num-attention-heads": 4,
    "max-position-embeddings": 512,
    "seq-length": 512,
    "vocab-size": 1000,
}


def figure_of(**more):
    arguments = SMALL | {key.replace("_", "-"): value for key, value in more.items()}
    model, rest = read_megatron(arguments)
    return estimate(megatron_job(model, rest, gpus=1))[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cross_entropy_loss_fusion", True),
        ("defer_embedding_wgrad_compute", True),
        ("tp_comm_overlap", "true"),
        ("cp_comm_type", "a2a"),
        ("cuda_graph_impl", "local"),
        ("moe_z_loss_coeff", 0.001),
    ],
)
def test_what_changes_memory_and_is_not_read_is_listed(name, value):
    [line] = figure_of(**{name: value}).not_modelled

    assert line == f"{name.replace('_', '-')}={value}, of Megatron-LM's arguments"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cross_entropy_loss_fusion", False),
        ("tp_comm_overlap", "False"),
        ("cp_comm_type", "p2p"),
        ("tp_comm_overlap_cfg", None),
        ("lr", 0.001),
        ("overlap_grad_reduce", True),
        ("optimizer", "adam"),
        ("use_megatron_fsdp", False),
    ],
)
def test_what_changes_nothing_is_not(name, value):
    plain, found = figure_of(), figure_of(**{name: value})

    assert (found.not_modelled, found.allocated_bytes) == ((), plain.allocated_bytes)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"use_megatron_fsdp": True},
            "use-megatron-fsdp=True changes what a rank holds, and no formula has it",
        ),
        ({"optimizer": "sgd"}, "optimizer='sgd' changes what a rank holds"),
        ({"optimizer_cpu_offload": "true"}, "run the step itself in a marked test, or leave it out"),
        ({"recompute_granularty": "full"}, "no argument recompute-granularty. Did you mean 'recompute-gran"),
        ({"batch_size": 4}, "no argument batch-size. Did you mean 'micro-batch-size'"),
        (
            {"recompute_granularity": "ful"},
            "recompute-granularity='ful' cannot be used; write full or selective",
        ),
        ({"fp8_format": "hybird"}, "fp8-format='hybird' cannot be used; write hybrid or e4m3"),
        ({"moe_router_dtype": "fp64"}, "moe-router-dtype='fp64' cannot be used; write fp32"),
        (
            {"recompute_granularity": "selective", "recompute_modules": "core_attn moe"},
            "recompute-modules='core_attn moe' cannot be used; write some of core_attn, mlp",
        ),
        (
            {"fine_grained_activation_offloading": True, "offload_modules": "everything"},
            "offload-modules='everything' cannot be used; write some of attn_norm",
        ),
        ({"tokenizer_type": "BertWordPieceLowerCase"}, "is of pretrain_bert.py"),
        ({"bert_no_binary_head": True}, "bert-no-binary-head=True is of pretrain_bert.py"),
        ({"mask_prob": 0.15}, "mask-prob=0.15 is of pretrain_bert.py"),
    ],
)
def test_what_is_refused_is_named_with_what_to_write(arguments, text):
    with pytest.raises(UsageMistake) as caught:
        figure_of(**arguments)

    assert text in str(caught.value)


def test_bert_has_its_own_arguments_where_bert_is_read():
    arguments = SMALL | {"tokenizer-type": "BertWordPieceLowerCase", "bert-no-binary-head": True}
    model, rest = read_megatron(arguments, kind="bert")

    assert megatron_job(model, rest, gpus=1).model.head_bias


def test_no_name_is_in_two_lists():
    """Those of the parser: 874 with its aliases, of which five old ones end with an error there."""
    lists = [
        OF_THE_MODEL | OF_THE_JOB,
        names.REFUSED,
        names.OF_BERT - OF_THE_MODEL,
        names.NOT_MODELLED,
        names.WITHOUT_EFFECT,
    ]

    assert sum(map(len, lists)) == len(frozenset().union(*lists)) == 874 - 5
    assert names.DEFAULTS.keys() <= names.NOT_MODELLED | names.REFUSED
