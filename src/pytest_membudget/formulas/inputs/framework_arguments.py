"""Models from the arguments of training frameworks: Megatron-LM's and torchtitan's."""

from .megatron_arguments import padded_vocab, read_megatron
from .torchtitan_arguments import LLAMA3_FLAVORS, ffn_width, read_torchtitan

__all__ = ["LLAMA3_FLAVORS", "ffn_width", "padded_vocab", "read_megatron", "read_torchtitan"]
