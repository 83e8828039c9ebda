"""Names of Megatron-LM's arguments that no formula reads.

With those that are read (``megatron_arguments``, ``megatron_job``) they are all options of
``add_megatron_arguments``, megatron/training/arguments.py, and of the configurations that it adds,
NVIDIA/Megatron-LM d98e8a64ddf34856e74b24714e3bedb2f5a39553; less its old names, which only end with an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: What they change is most of a figure, or which layers there are: a figure without them would be wrong.
REFUSED: Final = _names(
    """
    attention-output-gate biencoder-projection-dim cpu-offloading-num-layers decoder-num-layers
    decoder-seq-length disable-pad-vocab-size enable-mhc-connections encoder-num-layers
    encoder-seq-length experimental-attention-variant expert-tensor-parallel-num-weight-shards
    fp32-residual-connection fp4-format fp4-param-gather freeze-all-layers
    heterogeneous-layers-config-encoded-json heterogeneous-layers-config-path hybrid-context-parallel
    hybrid-layer-pattern hybrid-override-pattern ict-head-size inference-dynamic-batching is-hybrid-model
    linear-attention-freq mla-down-proj-fusion mlp-chunks-for-training moe-latent-size
    moe-layer-recompute moe-paged-stash mtp-hybrid-override-pattern mtp-standalone mtp-use-repeated-layer
    no-pad-vocab-size optimizer optimizer-cpu-offload perform-rl-step qk-l2-norm skip-train spec
    tensor-parallel-num-weight-shards use-checkpoint-args use-kitchen-attention use-megatron-fsdp
    use-mp-args-from-checkpoint-args use-precision-aware-optimizer use-torch-fsdp2 vision-pretraining
    vocab-extra-ids window-attn-skip-freq yaml-cfg
    """
)

#: Of ``pretrain_bert.py`` alone.
OF_BERT: Final = _names(
    """
    bert-embedder-type bert-load bert-no-binary-head mask-prob output-bert-embeddings short-seq-prob
    """
)

#: They change what is in memory, and are listed under *Not modelled*.
NOT_MODELLED: Final = _names(
    """
    activation-func-clamp-value activation-offload-fraction apply-residual-connection-post-layernorm
    batch-invariant-mode cp-comm-type create-all-gather-group cross-entropy-fusion-impl
    cross-entropy-loss-fusion cuda-graph-impl cuda-graph-modules cuda-graph-scope
    dataloader-inter-document-masking ddp-pad-buckets-for-high-nccl-busbw
    ddp-param-name-patterns-for-fp32-local-accumulation ddp-reduce-scatter-with-fp32-accumulation
    defer-embedding-wgrad-compute delay-offload-until-cuda-graph delay-wgrad-compute
    delta-offload-bytes-across-pp-ranks deterministic-mode disable-clone-scatter-output-in-embedding
    disable-fp8-wgrad disable-jit-fuser distributed-backend empty-unused-memory-level enable-cuda-graph
    ep-overlap-early-attn-memory-release eval-micro-batch-size external-cuda-graph
    fine-grained-offloading-max-inflight-offloads first-last-layers-bf16 flash-attention-version
    fp16-lm-cross-entropy fp4-quantizer-factory fp8-amax-history-len fp8-output-proj
    fp8-quantizer-factory fused-residual-rmsnorm glu-linear-offset gpu-sniff-test-interval
    hierarchical-context-parallel-sizes log-max-attention-logit log-num-zeros-in-grad log-params-norm
    logits-load-dir logits-save-dir max-seqlen-per-dp-cp-rank min-offloaded-tensor-size
    moe-apply-probs-on-input moe-aux-loss-coeff moe-combine-bwd-dtype moe-dispatch-fwd-dtype
    moe-enable-deepep moe-enable-routing-replay moe-expert-capacity-factor
    moe-expert-rank-capacity-factor moe-flex-dispatcher-backend moe-hybridep-pad-uneven-dispatch-inputs
    moe-input-jitter-eps moe-mlp-glu-interleave-size moe-ncclep-zero-copy
    moe-pad-expert-input-to-capacity moe-permute-fusion moe-permute-fusion-into-hybridep
    moe-router-force-biased moe-router-fusion moe-router-group-topk moe-router-load-balancing-type
    moe-router-num-groups moe-router-padding-for-fp8 moe-router-padding-for-quantization
    moe-router-pre-softmax moe-router-quantile-balancing-ema moe-router-score-function
    moe-routing-trace-path moe-shared-expert-glu-interleave-size moe-shared-expert-overlap
    moe-single-grouped-bias moe-single-grouped-weight moe-use-grouped-tensor moe-z-loss-coeff
    mrope-section mtp-detach-heads mtp-hsm mup-embedding-mult mup-output-mult
    nccl-communicator-config-path no-clone-scatter-output-in-embedding no-fp8-wgrad
    no-overlap-p2p-communication no-persist-layer-norm no-rope-freq no-rope-fusion
    num-layers-at-end-in-bf16 num-layers-at-start-in-bf16 onnx-safe openai-gelu optimizer-cuda-graph
    output-logit-dtype overlap-dispatch-backward-with-experts-wgrad overlap-moe-expert-parallel-comm
    overlap-p2p-communication-warmup-flush qk-clip rampup-batch-size reuse-grad-buf-for-mxfp8-param-ag
    rotary-interleaved save-activations-interval save-dgrads-interval save-wgrads-interval sft
    step-batch-size-schedule symmetric-ar-type te-precision-config-file tp-comm-overlap
    tp-comm-overlap-cfg use-flash-attn use-fused-weighted-squared-relu use-grouped-gemm-for-dense-mlp
    use-grouped-gemm-for-shared-expert use-mup use-nccl-ub use-sharp use-te-activation-func
    use-transformer-engine-op-fuser
    """
)

#: Values of these, other than false and null, that change nothing: their defaults.
DEFAULTS: Final[Mapping[str, object]] = MappingProxyType(
    {
        "activation-offload-fraction": 1.0, "cp-comm-type": "p2p", "cross-entropy-fusion-impl": "native",
        "cuda-graph-impl": "none", "distributed-backend": "nccl", "fp8-amax-history-len": 1,
        "glu-linear-offset": 0.0, "moe-combine-bwd-dtype": "bf16", "moe-dispatch-fwd-dtype": "bf16",
        "moe-flex-dispatcher-backend": "deepep", "moe-router-load-balancing-type": "aux_loss",
        "moe-router-score-function": "softmax", "mup-embedding-mult": 1.0, "mup-output-mult": 1.0,
        "num-layers-at-end-in-bf16": 1, "num-layers-at-start-in-bf16": 1, "optimizer": "adam",
    }
)  # fmt: skip

#: They change nothing in the memory of a step of training: data, logging, checkpoints, schedules, fault
#: tolerance, inference, and details of what is refused.
WITHOUT_EFFECT: Final = _names(
    """
    adam-beta1 adam-beta2 adam-eps adlr-autoresume adlr-autoresume-interval allow-ambiguous-pad-tokens
    app-tag-run-name app-tag-run-version apply-layernorm-1p apply-wd-to-qk-layernorm
    async-ckpt-cpu-priority async-ckpt-io-priority async-ckpt-use-cpu-shm async-save async-strategy
    auto-detect-ckpt-format batch-invariant-backend biencoder-shared-query-context-model block-data-path
    cache-mla-latents calc-ft-timeouts calculate-per-token-loss chat-template check-for-large-grads
    check-for-spiky-loss check-weight-hash-across-dp-replicas-interval ckpt-assume-constant-structure
    ckpt-convert-format ckpt-convert-save ckpt-convert-update-legacy-dist-opt-format
    ckpt-drop-redundant-extra-state ckpt-format ckpt-fully-parallel-load
    ckpt-fully-parallel-load-exchange-algo ckpt-fully-parallel-load-per-rank-objects
    ckpt-fully-parallel-load-process-group ckpt-fully-parallel-save
    ckpt-fully-parallel-save-process-group ckpt-pg-tensors-cache-create ckpt-pg-tensors-cache-path
    ckpt-step classes-fraction clip-grad config-logger-dir cpu-offloading-retain-pinned-cpu-buffers
    cuda-graph-warmup-steps data-args-path data-cache-path data-parallel-random-init
    data-parallel-sharding-strategy data-path data-per-class-fraction dataloader-defer-npy-index-mmap
    dataloader-fast-cache-load dataloader-type ddp-average-in-collective ddp-bucket-size ddp-num-buckets
    decode-only-cuda-graphs decoupled-lr decoupled-min-lr decrease-batch-size-if-needed
    dino-bottleneck-size dino-freeze-last-layer dino-head-hidden-size dino-local-crops-number
    dino-local-img-size dino-norm-last-layer dino-teacher-temp dino-warmup-teacher-temp
    dino-warmup-teacher-temp-epochs disable-align-grad-reduce disable-bf16-reduced-precision-matmul
    disable-ckpt-load-validate-sharding-integrity disable-dsa-indexer-rotate-activation
    disable-dsa-indexer-scoring-relu disable-flight-recorder-dump-on-timeout
    disable-flight-recorder-extra-dump-on-exec disable-flight-recorder-include-only-active
    disable-gloo-process-groups disable-log-loss-scale-to-tensorboard disable-mamba-mem-eff-path
    disable-manual-gc-eval disable-msc disable-save-tokenizer-assets disable-straggler-on-startup
    disable-strict-fsdp-dtensor-load disable-symmetric-registration
    disable-tokenizer-sentencepiece-ignore-extra-whitespaces disable-tp-comm-bulk-dgrad
    disable-tp-comm-bulk-wgrad disable-tp-comm-overlap-ag disable-tp-comm-overlap-rs
    disable-tp-comm-split-ag disable-tp-comm-split-rs disable-use-tokenizer-model-from-checkpoint-args
    dist-ckpt-format dist-ckpt-optim-fully-reshardable dist-ckpt-save-pre-mcore-014 dist-ckpt-strictness
    dist-ckpt-workers distrib-optim-fully-reshardable-mem-efficient distributed-timeout-minutes
    distributed-timeout-seconds-after-init dsa-indexer-head-dim dsa-indexer-k-norm-epsilon
    dsa-indexer-k-norm-fp32 dsa-indexer-loss-coeff dsa-indexer-n-heads dsa-indexer-rope-interleaved
    dsa-indexer-skip-topk-offset dsa-indexer-topk dsa-indexer-topk-freq dsa-indexer-use-sparse-loss
    dsa-kernel-backend dump-param-to-param-group-map embedding-init-method-std embedding-path
    enable-chunked-prefill enable-experimental enable-ft-package enable-full-sharding-in-hsdp enable-msc
    end-weight-decay eod-mask-loss error-injection-rate error-injection-type eval-global-batch-size
    eval-interval eval-iters evidence-data-path exit-duration-in-mins exit-interval
    exit-on-missing-checkpoint exit-signal exit-signal-handler exit-signal-handler-for-dataloader
    exit-signal-handler-for-training exp-avg-dtype exp-avg-sq-dtype fake-process-group
    fault-injector-delay-start-iteration fault-injector-fault-delay fault-injector-fault-probabilities
    fault-injector-fault-types fault-injector-mtti-seconds fault-injector-num-ranks
    fault-injector-offset-seconds fault-injector-ranks fault-injector-seed fim-data fim-eod-token
    fim-fragment-rate fim-middle-token fim-no-prefix fim-pad-token fim-prefix-token fim-rate
    fim-split-sample fim-spm-rate fim-suffix-token finetune flash-decode flight-recorder-dump-path
    flight-recorder-include-stack-trace flight-recorder-trace-buffer-size fp4-recipe
    fp8-amax-compute-algo fp8-interval fp8-margin fsdp-db-use-persist-buf-on-alloc-fail
    fsdp-double-buffer fsdp-manual-registration ft-num-warmup-iters full-validation gdp-cutedsl-kernel
    gdp-num-chunk-states-to-recompute gdp-num-householder grpo-clamp-eps-lower grpo-clamp-eps-upper
    grpo-entropy-term-weight grpo-filter-groups-with-same-reward grpo-group-size grpo-iterations
    grpo-kl-beta grpo-prompts-per-step gtp-expert-remat-nccl-ub gtp-remat-nccl-ub
    gtp-remat-opt-in-modules gtp-remat-reduce-scatter-with-fp32-accumulation head-lr-mult
    high-priority-a2a-comm-stream high-priority-stream-groups hysteresis ict-load img-h img-w
    indexer-batch-size indexer-log-interval inference-batch-times-seqlen-threshold
    inference-coordinator-port inference-cuda-graph-all-prefills inference-cuda-graph-max-tokens
    inference-cuda-graph-scope inference-disable-ep-consensus inference-disable-triton-nvls-kernels
    inference-dynamic-batching-async-sched-mode inference-dynamic-batching-block-size
    inference-dynamic-batching-buffer-size-gb inference-dynamic-batching-cuda-graph-mixed-prefill-count
    inference-dynamic-batching-cuda-graph-sizing-distribution inference-dynamic-batching-logprobs-mode
    inference-dynamic-batching-mamba-memory-ratio inference-dynamic-batching-max-requests
    inference-dynamic-batching-max-tokens inference-dynamic-batching-num-cuda-graphs
    inference-dynamic-batching-paused-buffer-size-gb inference-dynamic-batching-prefix-caching
    inference-dynamic-batching-prefix-caching-coordinator-policy
    inference-dynamic-batching-prefix-caching-eviction-policy
    inference-dynamic-batching-prefix-caching-mamba-gb
    inference-dynamic-batching-prefix-caching-routing-alpha inference-dynamic-batching-sampling-backend
    inference-dynamic-batching-track-generated-token-events
    inference-dynamic-batching-track-paused-request-events
    inference-dynamic-batching-unified-memory-level inference-fuse-tp-communication
    inference-grouped-gemm-backend inference-logging-step-interval inference-max-requests
    inference-max-seq-length inference-moe-disable-fused-quant-kernels
    inference-moe-token-dispatcher-type inference-rng-tracker inference-shards
    inference-text-gen-server-logging inference-use-synchronous-zmq-collectives inference-wandb-logging
    init-method-std init-method-xavier-uniform init-model-with-meta-device initial-loss-scale
    inprocess-active-world-size inprocess-barrier-timeout inprocess-completion-timeout
    inprocess-empty-cuda-cache inprocess-granularity inprocess-hard-timeout inprocess-heartbeat-interval
    inprocess-heartbeat-timeout inprocess-last-call-wait inprocess-max-iterations
    inprocess-monitor-process-interval inprocess-monitor-thread-interval
    inprocess-progress-watchdog-interval inprocess-restart inprocess-soft-timeout
    inprocess-termination-grace-time iter-per-epoch iterations-to-skip keep-fp8-transpose-cache
    kitchen-attention-backend langrl-env-config lazy-mpu-init linear-conv-kernel-dim linear-key-head-dim
    linear-num-key-heads linear-num-value-heads linear-value-head-dim lion-beta1 lion-beta2 load
    load-main-params-from-ckpt local-rank log-device-memory-used log-energy log-interval
    log-memory-interval log-memory-to-tensorboard log-progress log-straggler log-throughput
    log-timers-to-tensorboard log-validation-ppl-to-tensorboard log-world-size-to-tensorboard
    logging-level logits-load-decode-threads logits-load-ignore-errors logits-load-kd-loss-alpha
    logits-load-msc-prefetch-depth logits-load-prefetch-factor logits-save-dtype logits-save-top-k
    logits-save-top-p logits-save-top-p-min-k loss-scale loss-scale-window lr lr-decay-iters
    lr-decay-samples lr-decay-style lr-warmup-fraction lr-warmup-init lr-warmup-iters lr-warmup-samples
    lr-wsd-decay-iters lr-wsd-decay-samples lr-wsd-decay-style main-grads-dtype main-params-dtype
    mamba-head-dim mamba-inference-conv-states-dtype mamba-inference-ssm-states-dtype mamba-num-groups
    mamba-num-heads mamba-state-dim mamba-training-ssm-states-dtype manual-gc manual-gc-interval
    mask-factor mask-type max-tokens-to-oom megatron-fsdp-enable-fine-grained-param-gather
    megatron-fsdp-grad-comm-dtype megatron-fsdp-main-grads-dtype megatron-fsdp-main-params-dtype
    megatron-fsdp-max-pool-double-buffer megatron-fsdp-version memory-snapshot-path merge-file
    mhc-init-gating-factor mhc-num-residual-streams mhc-recompute-layer-num mhc-sinkhorn-iterations
    mid-level-dataset-surplus min-loss-scale min-lr mlp-chunks-for-prefill mock-data moe-deepep-num-sms
    moe-flex-dispatcher-num-sms moe-hybridep-num-blocks-permute moe-hybridep-num-blocks-unpermute
    moe-hybridep-num-sms moe-hybridep-num-sms-preprocessing moe-pad-experts-for-cuda-graph-inference
    moe-paged-stash-buffer-size-factor-cpu moe-paged-stash-buffer-size-factor-cuda
    moe-paged-stash-page-size moe-per-layer-logging moe-router-bias-update-rate
    moe-router-force-load-balancing moe-router-topk-scaling-factor
    moe-routing-trace-capture-hidden-states moe-routing-trace-capture-logits
    moe-routing-trace-dump-weights moe-routing-trace-max-training-iters moe-token-drop-policy
    moe-upcycling-granularity moe-use-upcycling mscale mscale-all-dim mtp-loss-scaling-factor
    multiple-validation-sets muon-coefficient-type muon-extra-scale-factor muon-fp32-matmul-prec
    muon-momentum muon-nesterov muon-no-split-qkv muon-num-ns-steps muon-scalar-optimizer muon-scale-mode
    muon-tp-mode muon-use-syrk mup-attn-scale-power mup-base-head-dim mup-base-hidden-size mup-width-mult
    nccl-all-reduce-for-prefill no-align-grad-reduce no-align-param-gather no-barrier-with-level-1-timing
    no-check-for-nan-in-loss-and-grad no-ckpt-fully-parallel-save
    no-ckpt-load-validate-sharding-integrity no-data-sharding no-dsa-indexer-rotate-activation
    no-dsa-indexer-scoring-relu no-flight-recorder-dump-on-timeout no-flight-recorder-extra-dump-on-exec
    no-flight-recorder-include-only-active no-gradient-reduce-div-fusion
    no-inference-disable-ep-consensus no-inference-dynamic-batching-prefix-caching
    no-inference-text-gen-server-logging no-inference-use-synchronous-zmq-collectives
    no-inference-wandb-logging no-initialization no-load-optim no-load-rng
    no-log-loss-scale-to-tensorboard no-manual-gc-eval no-mmap-bin-files no-one-logger no-pin-cpu-grads
    no-pin-cpu-params no-rl-inference-logprobs-is-correction
    no-rl-offload-inference-model-weights-when-idle no-rl-partial-rollouts no-rl-persist-cuda-graphs
    no-rl-skip-bos-token no-rl-training-cuda-graphs no-rl-use-sequence-packing
    no-rl-verify-model-weights-swap no-save-optim no-save-rng no-save-tokenizer-assets
    no-strict-fsdp-dtensor-load no-tokenizer-sentencepiece-ignore-extra-whitespaces no-tp-comm-bulk-dgrad
    no-tp-comm-bulk-wgrad no-tp-comm-overlap-ag no-tp-comm-overlap-rs no-tp-comm-split-ag
    no-tp-comm-split-rs no-use-layer-wise-param-layout no-use-tokenizer-model-from-checkpoint-args
    no-weight-decay-cond-type no-yarn-correction-range-round-to-int non-persistent-ckpt-type
    non-persistent-global-ckpt-dir non-persistent-local-ckpt-algo non-persistent-local-ckpt-dir
    non-persistent-save-interval norm-epsilon null-tokenizer-eod-id null-tokenizer-pad-id num-channels
    num-classes num-dataset-builder-threads num-speculative-tokens num-workers nvtx-ranges
    object-storage-cache-path one-logger-async one-logger-project one-logger-run-name
    optimizer-offload-fraction otel-enabled otel-service-name otel-span-groups outer-dp-sharding-strategy
    overlap-cpu-optimizer-d2h-h2d overlap-grad-reduce overlap-param-gather
    overlap-param-gather-with-optimizer-step override-ckpt-iteration override-opt-param-scheduler
    patch-dim per-dataset-sequences-path per-split-data-args-path persistent-save-interval
    phase-transition-iterations pipeline-model-parallel-comm-backend pretrained-checkpoint profile
    profile-ranks profile-step-end profile-step-start pytorch-profiler-collect-callstack
    pytorch-profiler-collect-chakra pytorch-profiler-collect-shapes qk-clip-alpha qk-clip-threshold
    query-in-block-prob record-memory-history record-shapes refit-method relative-attention-max-distance
    relative-attention-num-buckets replication replication-factor replication-jump rerun-mode
    reset-attention-mask reset-position-ids result-rejected-tracker-filename
    retriever-report-topk-accuracies retriever-score-scaling rl-consumption-granularity
    rl-default-temperature rl-default-top-k rl-default-top-p rl-durable-rollout-bank rl-generation-lag
    rl-importance-sampling-truncation-coef rl-inference-expert-model-parallel-size
    rl-inference-expert-tensor-model-parallel-size rl-inference-logprobs-is-correction
    rl-inference-model-unified-memory-level rl-inference-parsers
    rl-inference-pipeline-model-parallel-size rl-inference-tensor-model-parallel-size
    rl-kv-cache-management-mode rl-max-inflight-requests rl-offload-inference-model-weights-when-idle
    rl-offload-optimizer-during-inference rl-partial-rollouts rl-persist-cuda-graphs rl-profile
    rl-profile-dir rl-prompts-per-eval rl-rollout-bank-dir rl-rollout-bank-max-bytes
    rl-sequence-packing-algo rl-sequence-packing-max-sequences-per-bin rl-skip-bos-token
    rl-submission-granularity rl-training-cuda-graphs rl-use-sequence-packing
    rl-verify-model-weights-swap rope-scaling-factor rope-type rotary-base rotary-scaling-factor
    rotary-seq-len-interpolation-factor run-workload-inspector-server sample-rate save save-interval
    save-params-interval save-retain-interval save-tokens-per-expert-interval seed
    sft-tokenizer-prompt-format sgd-momentum sharp-enabled-group split start-eval-at-iter
    start-weight-decay straggler-ctrlr-port straggler-minmax-count suggested-communication-unit-size
    swin-backbone-type te-rng-tracker tensorboard-dir tensorboard-log-interval tensorboard-queue-size
    test-data-path test-mode tiktoken-num-special-tokens tiktoken-pattern timing-log-level
    timing-log-option titles-data-path tokenizer-hf-no-include-special-tokens tokenizer-hf-no-use-fast
    tokenizer-metadata tokenizer-model tokenizer-sentencepiece-legacy tokenizer-special-tokens
    tokenizer-type torch-fsdp2-no-reshard-after-forward tp-comm-bootstrap-backend
    tp-comm-overlap-rs-dgrad train-data-path train-iters train-samples train-sync-interval
    trust-remote-code use-checkpoint-opt-param-scheduler use-cpu-initialization use-dist-ckpt
    use-gigatoken use-legacy-static-engine use-mcore-models use-one-sent-docs use-persistent-ckpt-worker
    use-pytorch-profiler use-ring-exchange-p2p use-rope-scaling use-same-sampling-seed-across-dp-ranks
    use-torch-optimizer-for-cpu-offload use-tp-pp-dp-mapping valid-data-path validation-set-names
    verify-integrity vision-backbone-type vision-pretraining-type vocab-file wandb-entity wandb-exp-name
    wandb-project wandb-save-dir weight-decay weight-decay-incr-style wgrad-deferral-limit yarn-beta-fast
    yarn-beta-slow yarn-correction-range-round-to-int yarn-original-max-position-embeddings
    """
)
