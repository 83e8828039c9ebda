"""inference_step decodes what the model says of the whole text, one token at a time."""

import pytest
import torch
from plain_torch import assert_equal
from tiny_models import LanguageModel, RunningSum

from pytest_membudget.steps import inference_step


def greedy_without_a_cache(model, input_ids, new_tokens):
    for _ in range(new_tokens):
        output = model(input_ids=input_ids, use_cache=False)
        logits = output["logits"][:, -1:]
        input_ids = torch.cat([input_ids, logits.argmax(-1)], dim=1)
    return input_ids[:, -new_tokens:]


def cache_of(output):
    """It has another name in transformers 5.24 than in earlier ones."""
    return output["cache" if "cache" in output else "past_key_values"]


@pytest.mark.parametrize("new_tokens", [1, 2, 12])
def test_decoding_equals_running_the_whole_text_for_each_token(llama, new_tokens):
    llama.eval()
    prompt = torch.randint(0, 64, (2, 7))

    generated = inference_step(llama, prompt, new_tokens=new_tokens)

    assert_equal(generated, greedy_without_a_cache(llama, prompt, new_tokens))
    assert generated.is_inference()


def test_decoding_equals_hugging_faces_greedy_generate(llama):
    llama.eval()
    llama.generation_config.eos_token_id = None
    prompt = torch.randint(0, 64, (2, 7))

    expected = llama.generate(
        prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=12, pad_token_id=0
    )

    assert_equal(inference_step(llama, prompt, new_tokens=12), expected[:, 7:])


def test_a_model_of_ones_own_with_that_convention_decodes():
    model, prompt = RunningSum().eval(), torch.tensor([[1, 2, 3]])

    assert_equal(inference_step(model, prompt, new_tokens=6), greedy_without_a_cache(model, prompt, 6))


def test_the_prompt_is_run_once_and_each_token_once_for_its_last_logits(llama):
    seen = []
    llama.eval().register_forward_hook(
        lambda _module, _args, inputs, output: seen.append(
            (inputs["input_ids"].shape[1], output.logits.shape[1], cache_of(output).get_seq_length())
        ),
        with_kwargs=True,
    )

    inference_step(llama, torch.randint(0, 64, (1, 7)), new_tokens=3)

    assert seen == [(7, 1, 7), (1, 1, 8), (1, 1, 9)]  # tokens in, logits out, tokens in the cache


def test_a_model_in_training_mode_is_refused():
    with pytest.raises(ValueError, match=r"model is in training mode.*call model\.eval\(\)"):
        inference_step(RunningSum(), torch.tensor([[1]]), new_tokens=1)


def test_no_new_token_is_refused():
    with pytest.raises(ValueError, match="new_tokens=0: give the number"):
        inference_step(RunningSum().eval(), torch.tensor([[1]]), new_tokens=0)


def test_a_model_of_another_convention_is_refused(tokens):
    with pytest.raises(TypeError, match=r"LanguageModel\.forward takes no past_key_values and no use_cache"):
        inference_step(LanguageModel().eval(), tokens, new_tokens=1)


def test_a_model_that_returns_no_cache_is_refused():
    class Forgetful(RunningSum):
        def forward(self, input_ids, **options):
            return super().forward(input_ids)

    with pytest.raises(TypeError, match="Forgetful returned no past_key_values"):
        inference_step(Forgetful().eval(), torch.tensor([[1]]), new_tokens=1)
