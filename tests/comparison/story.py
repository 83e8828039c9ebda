"""A repository's story: a small model and its tests at the base, and at the head one change a test.

Every test has a model of its own, so that one commit tells seven stories. Sizes are of a few MiB: figures of
the device do not round, and each estimate takes a moment.
"""

from textwrap import dedent

MODELS = {
    "upcast.py": """
        from torch import nn


        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Embedding(8192, 256)
                self.head = nn.Linear(256, 8192, bias=False)

            def forward(self, tokens):
                logits = self.head(self.embed(tokens))
                return logits
        """,
    "blocks.py": """
        import torch
        from torch import nn
        from torch.utils.checkpoint import checkpoint


        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.up = nn.Linear(256, 1024, bias=False)
                self.down = nn.Linear(1024, 256, bias=False)

            def forward(self, x):
                return x + self.down(torch.relu(self.up(x)))


        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList(Block() for _ in range(8))

            def forward(self, x):
                for block in self.blocks:
                    x = checkpoint(block, x, use_reentrant=False)
                return x
        """,
    "attend.py": """
        import torch
        from torch import nn
        from torch.nn import functional as F


        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv = nn.Linear(256, 768, bias=False)
                self.cache = None

            def forward(self, x):
                q, k, v = self.qkv(x).view(1, -1, 4, 192).transpose(1, 2).chunk(3, dim=-1)
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        """,
    "cached.py": """
        from torch import nn


        class Cached(nn.Module):
            def __init__(self):
                super().__init__()
                self.key = nn.Linear(256, 256, bias=False)
                self.value = nn.Linear(256, 256, bias=False)
                self.kept = []

            def forward(self, x):
                k = self.key(x).detach()
                v = self.value(x)
                return v * k.mean()
        """,
    "renamed.py": """
        from torch import nn


        class Plain(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = nn.Linear(512, 512)
                self.second = nn.Linear(512, 512)

            def forward(self, x):
                hidden = self.first(x).relu()
                return self.second(hidden)
        """,
    "commented.py": """
        from torch import nn


        class Plain(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = nn.Linear(512, 512)

            def forward(self, x):
                return self.first(x).relu()
        """,
}

TESTS = """
    import pytest
    import torch
    from torch.nn import functional as F

    from attend import Attention
    from blocks import Model as Blocks
    from cached import Cached
    from commented import Plain as Commented
    from renamed import Plain as Renamed
    from upcast import Model as Upcast

    pytestmark = pytest.mark.mem_budget(gib=1, max_growth="1%")


    def test_logits():
        model = Upcast().to("cuda", torch.bfloat16)
        tokens = torch.zeros(1, 2048, dtype=torch.long, device="cuda")
        logits = model(tokens)
        F.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()


    def test_checkpointing():
        model = Blocks().cuda()
        model(torch.randn(4096, 256, device="cuda", requires_grad=True)).sum().backward()


    def test_cache():
        model = Cached().cuda()
        for _ in range(4):
            model(torch.randn(4096, 256, device="cuda")).sum().backward()


    def test_optimizer():
        model = torch.nn.Linear(2048, 2048).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model(torch.randn(16, 2048, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()


    def test_attention():
        model = Attention().to("cuda", torch.bfloat16)
        model(torch.randn(1, 4096, 256, device="cuda", dtype=torch.bfloat16)).sum().backward()


    def test_rename():
        Renamed().cuda()(torch.randn(1024, 512, device="cuda")).sum().backward()


    def test_comment():
        Commented().cuda()(torch.randn(1024, 512, device="cuda")).sum().backward()
    """

#: What the head's commit does to each file: a text that goes, and what comes in its place.
CHANGES = {
    "upcast.py": (
        "        return logits",
        "        # the loss is to be exact\n        return logits.float()",
    ),
    "blocks.py": ("checkpoint(block, x, use_reentrant=False)", "block(x)"),
    "attend.py": (
        "        return F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        '        mask = torch.ones(4096, 4096, dtype=torch.bool, device="cuda").tril()\n'
        "        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)",
    ),
    "cached.py": (".detach()", ".detach()\n        self.kept.append(k)"),
    "commented.py": ("from torch", "# Nothing but words has changed.\nfrom torch"),
    "test_memory.py": (
        "torch.optim.SGD(model.parameters(), lr=0.1)",
        "torch.optim.AdamW(model.parameters())",
    ),
}
#: A class, its file, a function's variables and modules have other names.
RENAMED = """
    from torch import nn


    class StillPlain(nn.Module):
        def __init__(self):
            super().__init__()
            self.up_projection = nn.Linear(512, 512)
            self.down_projection = nn.Linear(512, 512)

        def forward(self, states):
            inner = self.up_projection(states).relu()
            return self.down_projection(inner)
    """


def base_files():
    """The repository's files at the base, by relative path."""
    return {name: _text(text) for name, text in {**MODELS, "test_memory.py": TESTS}.items()}


def head_files():
    """What the head's commit writes; None for what it removes."""
    base = base_files()
    changed = {name: _replaced(base[name], *pair) for name, pair in CHANGES.items()}
    tests = _replaced(changed["test_memory.py"], "renamed import Plain as", "still import StillPlain as")
    return {**changed, "test_memory.py": tests, "renamed.py": None, "still.py": _text(RENAMED)}


def line_of(files, name, text):
    """``file:line`` of the only line with ``text``."""
    (number,) = (n for n, line in enumerate(files[name].splitlines(), start=1) if text in line)
    return f"{name}:{number}"


def _text(text):
    return dedent(text).lstrip("\n")


def _replaced(text, old, new):
    assert text.count(old) == 1, old
    return text.replace(old, new)
