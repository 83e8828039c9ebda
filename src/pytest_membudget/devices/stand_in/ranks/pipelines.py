"""Pipeline stages: what they ask the stages of other ranks before the first step."""

from typing import Any

import torch

from ..values.refusals import refusal


def install_pipelines(stage: Any) -> None:
    """Answer for the other ranks in ``stage``, the module ``torch.distributed.pipelining.stage``.

    Gradients come in the shapes of the outputs. What the stage before sends is known to that rank alone.
    """
    kind: Any = stage.PipelineStage
    if not hasattr(kind, "_recv_meta"):  # before 2.13 shapes are sent as objects (``objects``)
        _refuse_inference_of_later_stages(kind)
        return

    def receive(self: Any, src_stage: int) -> Any:
        if src_stage < self.stage_index:
            raise _without_shapes(self.stage_index)
        outputs = self._stage_meta.outputs
        return stage._StageBackwardMeta(backward_metas=stage._derive_grad_metas(outputs))

    kind._recv_meta, kind._send_meta = receive, lambda self, meta, dst_stage: None
    if hasattr(kind, "_warmup_forward_vote"):  # 2.13: each stage votes
        _vote_as_this_stage(stage, kind)


def _without_shapes(stage_index: int) -> Exception:
    return refusal(
        f"stage {stage_index} of the pipeline is to get the shapes of its inputs from stage "
        f"{stage_index - 1}, which is another rank's and not there; give them: "
        "PipelineStage(..., input_args=..., output_args=...) with tensors on the meta device"
    )


def _refuse_inference_of_later_stages(kind: Any) -> None:
    original = kind._shape_inference

    def infer(self: Any, *args: Any, **kwargs: Any) -> Any:
        ranks = self.stage_index_to_group_rank
        if not self.is_first and ranks[self.stage_index - 1] != self.group_rank:
            raise _without_shapes(self.stage_index)
        return original(self, *args, **kwargs)

    kind._shape_inference = infer


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
