"""Test files from a table of bodies: a row a test, each with a budget."""


def source(bodies, head="", marks=None, arguments=None, budget="budget"):
    """``bodies`` by name; ``marks`` and ``arguments`` of those that have others than ``@budget`` and none."""
    parts = [head]
    for name, body in bodies.items():
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        mark, given = (marks or {}).get(name, budget), (arguments or {}).get(name, "")
        parts.append(f"@{mark}\ndef test_{name}({given}):\n{lines}\n\n")
    return "".join(parts)
