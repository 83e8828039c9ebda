"""Pipeline stages: what they ask the stages of other ranks before the first step."""

from __future__ import annotations

from typing import Any

import torch

from ..refusals import refusal


def install_pipelines(stage: Any) -> None:
    """Answer for the other ranks in ``stage``, the module ``torch.distributed.pipelining.stage``.

    Whether shapes are inferred is put to the vote of all stages: they vote as this one. Gradients come in
    the shapes of the outputs. What the stage before sends is known to that rank alone.
    """
    kind: Any = stage.PipelineStage
    if not hasattr(kind, "_warmup_forward_vote"):  # before 2.13 shapes are sent as objects (``objects``)
        return
    forward_vote, backward_result = kind._warmup_forward_vote, kind._warmup_backward_result

    def vote(self: Any, has_backward: bool, received_acc: Any = None) -> torch.Tensor:
        forward_vote(self, has_backward, received_acc)
        is_static = not stage.InferenceMode.needs_dynamic(self._user_meta, has_backward)
        self._membudget_vote = torch.tensor([int(is_static)], dtype=torch.int32, device=self.device)
        return self._membudget_vote  # type: ignore[no-any-return]

    def result(self: Any, received_result: Any = None) -> Any:
        backward_result(self, received_result)
        return self._membudget_vote

    def receive(self: Any, src_stage: int) -> Any:
        if src_stage < self.stage_index:
            raise refusal(
                f"stage {self.stage_index} of the pipeline is to be told the shapes of its inputs by stage "
                f"{src_stage}, which is another rank's and not there on the virtual device; give them: "
                "PipelineStage(..., input_args=..., output_args=...) with tensors on the meta device"
            )
        outputs = self._stage_meta.outputs
        return stage._StageBackwardMeta(backward_metas=stage._derive_grad_metas(outputs))

    kind._warmup_forward_vote, kind._warmup_backward_result = vote, result
    kind._recv_meta, kind._send_meta = receive, lambda self, meta, dst_stage: None
