"""Budgets of tests that save checkpoints: strict sessions pass, and the files are read back."""

import pytest

pytestmark = pytest.mark.slow

FILES = {
    "test_saving.py": """
        import os

        import pytest
        import torch
        from torch import nn

        budget = pytest.mark.mem_budget(gib=1)

        @budget
        def test_save_parameters(tmp_path):
            model = nn.Linear(64, 64).cuda()
            torch.save(model.state_dict(), tmp_path / "m.pt")

        @budget
        def test_save_after_adamw(tmp_path):
            model = nn.Linear(64, 64).cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(2):
                model(torch.randn(8, 64, device="cuda")).sum().backward()
                optimizer.step()
            torch.save(model.state_dict(), tmp_path / "m.pt")
            torch.save(optimizer.state_dict(), tmp_path / "o.pt")

        @pytest.mark.mem_budget(gib=2)
        def test_one_gib(tmp_path):
            torch.save(torch.empty(2**28, device="cuda"), tmp_path / "large.pt")
            assert os.stat(tmp_path / "large.pt").st_blocks * 512 < 2**20
            assert torch.load(tmp_path / "large.pt", map_location="cuda").shape == (2**28,)
        """,
    "test_trainer.py": """
        import os

        import pytest
        import torch

        if torch.cuda.is_available():  # once, in the process that each run is a copy of
            from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

        @pytest.mark.mem_budget(gib=1)
        def test_a_run_is_continued(tmp_path):
            config = LlamaConfig(
                hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=4, vocab_size=8000, max_position_embeddings=64,
            )
            rows = [{"input_ids": torch.arange(32), "labels": torch.arange(32)}] * 8

            def train(steps, folder=None):
                args = TrainingArguments(
                    str(tmp_path), max_steps=steps, save_steps=2, report_to="none"
                )
                trainer = Trainer(model=LlamaForCausalLM(config), args=args, train_dataset=rows)
                trainer.train(resume_from_checkpoint=folder)
                return trainer

            train(2)
            trainer = train(4, str(tmp_path / "checkpoint-2"))
            assert trainer.state.global_step == 4
            assert {int(state["step"]) for state in trainer.optimizer.state.values()} == {4}
            saved = str(tmp_path / "checkpoint-4")
            assert os.stat(os.path.join(saved, "model.safetensors")).st_blocks * 512 < 2**20
            model = LlamaForCausalLM.from_pretrained(saved).cuda()
            assert model.lm_head.weight.shape == (8000, 64)
        """,
}


ARGS = ("--membudget", "--membudget-strict", "test_saving.py")


def test_bytes_that_go_to_a_file_decide_nothing(run):
    assert run.outcomes == dict.fromkeys(run.rows, "passed")
    assert len(run.rows) == 3
    assert [row["estimates"][0]["caveats"] for row in run.rows.values()] == [[]] * 3


def test_a_checkpoint_is_loaded_as_large_as_it_was_saved(run):
    assert run.allocated("test_one_gib") == 2**30


def test_a_trainer_is_continued_from_its_checkpoint(session_of):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    run = session_of(FILES, *ARGS[:2], "test_trainer.py")

    assert run.outcomes == {"test_a_run_is_continued": "passed"}, run.out
    assert run.rows["test_a_run_is_continued"]["verdict"] == "within"
