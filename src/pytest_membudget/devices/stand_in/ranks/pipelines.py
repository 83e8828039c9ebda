"""Pipeline stages: what they ask the stages of other ranks before the first step."""

from typing import Any

import torch


def install_pipelines(stage: Any) -> None:
    """Answer for later stages in ``stage``, the module ``torch.distributed.pipelining.stage``.

    Gradients come in the shapes of the outputs. What the stage before sends comes as other objects do.
    """
    kind: Any = stage.PipelineStage
    if not hasattr(kind, "_recv_meta"):  # before 2.13 nothing comes from later stages
        return
    receive_meta, send_meta = kind._recv_meta, kind._send_meta

    def receive(self: Any, src_stage: int) -> Any:
        if src_stage < self.stage_index:
            return receive_meta(self, src_stage)
        outputs = self._stage_meta.outputs
        return stage._StageBackwardMeta(backward_metas=stage._derive_grad_metas(outputs))

    def send(self: Any, meta: Any, dst_stage: int) -> None:
        if dst_stage > self.stage_index:
            send_meta(self, meta, dst_stage)

    kind._recv_meta, kind._send_meta = receive, send
    if hasattr(kind, "_warmup_forward_vote"):  # 2.13: each stage votes
        _vote_as_this_stage(stage, kind)


def install_schedules(schedules: Any) -> None:
    """The same in ``torch.distributed.pipelining.schedules``, where ranks vote from 2.15 on."""
    kind: Any = schedules._PipelineSchedule
    original = getattr(kind, "_initialize_pipeline_distributed_state", None)
    if original is None:
        return

    def initialize(self: Any, *args: Any, **kwargs: Any) -> Any:
        distributed: Any = schedules.dist
        all_reduce = distributed.all_reduce

        def vote(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            return all_reduce(tensor.clone(), *args, **kwargs)  # the outcome is what this rank voted

        distributed.all_reduce = vote
        try:
            return original(self, *args, **kwargs)
        finally:
            distributed.all_reduce = all_reduce

    kind._initialize_pipeline_distributed_state = initialize


def _vote_as_this_stage(stage: Any, kind: Any) -> None:
    """Whether shapes are inferred is put to the vote of all stages: they vote as this one."""
    forward_vote, backward_result = kind._warmup_forward_vote, kind._warmup_backward_result

    def vote(self: Any, has_backward: bool, received_acc: Any = None) -> torch.Tensor:
        forward_vote(self, has_backward, received_acc)
        is_static = not stage.InferenceMode.needs_dynamic(self._user_meta, has_backward)
        self._membudget_vote = torch.tensor([int(is_static)], dtype=torch.int32, device=self.device)
        return self._membudget_vote  # type: ignore[no-any-return]

    def result(self: Any, received_result: Any = None) -> Any:
        backward_result(self, received_result)
        return self._membudget_vote

    kind._warmup_forward_vote, kind._warmup_backward_result = vote, result
