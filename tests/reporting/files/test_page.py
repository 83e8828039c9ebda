"""The HTML report: one file, no network, no script but ours, and what the charts are drawn from."""

import base64
import hashlib
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from pytest_membudget.errors import UsageMistake
from pytest_membudget.reporting.files.page import page

GIB = 2**30

needs_libraries = pytest.mark.usefixtures("_libraries")


@pytest.fixture
def _libraries():
    for name in ("plotly", "jinja2"):
        pytest.importorskip(name, reason="the extra html is not installed")


class Elements(html.parser.HTMLParser):
    """What a browser sees: every element with its attributes, and the texts."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.texts = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)

    def of(self, tag):
        return [attributes for name, attributes in self.found if name == tag]


def scripts(text):
    """What the page runs."""
    return re.findall(r"<script>(.*?)</script>", text, re.DOTALL)


def charts(text):
    return json.loads(re.search(r'<script type="application/json" id="charts">(.*?)</script>', text)[1])


@needs_libraries
def test_what_is_over_besides_the_peak_and_who_splits_a_segment_have_rows(document, row, figure):
    host = {name: value for name, value in figure().items() if name not in ("host", "timeline")}
    host["holders"][0]["location"] = "offload.py:3"
    made = figure({"host": host, "holders.0.component": "cached", "holders.0.split_by": "aten::mm, b.py:7"})
    budget = {"host_gib": 1}
    over = row(verdict="over", limit_bytes=None, budget=budget, estimates=[made], host_bytes=4 * GIB)

    texts = Elements(page(document(over))).texts

    assert "What holds host memory" in texts
    assert {"offload.py:3", "aten::mm, b.py:7"} <= set(texts)


@pytest.fixture
def hostile_page(document, hostile_report):
    parts = {key: hostile_report[key] for key in ("distributions", "torch", "git", "comparison")}
    return page(document(*hostile_report["tests"], **parts))


@needs_libraries
def test_nothing_is_fetched(document, row):
    text = page(document(row()))
    elements = Elements(text)
    assert not [attributes for _, attributes in elements.found if "src" in attributes]
    assert {link["href"][0] for link in elements.of("a")} == {"#"}
    assert not elements.of("link")


@needs_libraries
@pytest.mark.parametrize("make", ["row", "hostile"])
def test_only_the_scripts_of_the_page_may_run(request, make):
    if make == "hostile":
        text = request.getfixturevalue("hostile_page")
    else:
        text = page(request.getfixturevalue("document")(request.getfixturevalue("row")()))
    elements = Elements(text)
    [policy] = [meta["content"] for meta in elements.of("meta") if "http-equiv" in meta]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy.partition("script-src")[2].partition(";")[0]
    assert [script.get("type") for script in elements.of("script")] == ["application/json", None, None]
    assert len(scripts(text)) == 2
    for script in scripts(text):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


@needs_libraries
def test_hostile_texts_are_texts(hostile_page):
    elements = Elements(hostile_page)
    assert not elements.of("img")
    assert not [
        attributes for _, attributes in elements.found if any(name.startswith("on") for name in attributes)
    ]
    assert {link["href"][:6] for link in elements.of("a")} == {"#test-"}
    assert "{{7*7}}" in hostile_page
    ours = hostile_page.replace(scripts(hostile_page)[0], "")  # without plotly.js
    assert not [char for char in ours if (char < " " and char != "\n") or char in "\u202e\u2028\x7f\ud800"]


@needs_libraries
def test_a_chart_is_drawn_from_the_timeline(document, row):
    [chart] = charts(page(document(row())))
    assert chart["moments"] == [0, 1, 4, 9]
    assert [(part["name"], part["bytes"]) for part in chart["components"]] == [
        ("parameters", [0, 3 * GIB, 3 * GIB, 0]),
        ("activations", [0, 0, GIB - 512, 0]),
    ]
    assert chart["peak"] == {"moment": 4, "bytes": 4 * GIB - 512}
    assert chart["limit"] == 5 * GIB
    assert chart["phases"] == [[1, "forward"], [5, "backward"]]


@needs_libraries
def test_the_base_is_drawn_over_the_same_length(document, row, comparison, figure):
    base = figure()["timeline"] | {"moments": [0, 1, 2, 3], "peak_moment": 2}
    [chart] = charts(page(document(row(comparison=comparison(**{"base.timeline": base})))))
    assert chart["base"] == {"moments": [0, 3, 6, 9], "bytes": [0, 3 * GIB, 4 * GIB - 512, 0]}


@needs_libraries
def test_a_measured_test_keeps_the_chart_of_its_estimate(document, row, figure):
    measured = figure({"kind": "measured", "timeline": None})
    assert len(charts(page(document(row(measurements=[measured]))))) == 1


@needs_libraries
def test_without_a_timeline_there_is_the_table(document, row, figure):
    text = page(document(row(estimates=[figure({"timeline": None})])))
    assert charts(text) == []
    assert "3,221,225,472" in text


@needs_libraries
def test_components_of_the_base_are_next_to_the_heads(document, row, comparison):
    base = {"parameters": 3 * GIB, "rounding": 512}
    text = page(document(row(comparison=comparison(**{"base.components": base}))))
    assert "+1.00 GiB" in Elements(text).texts  # activations, of which the base has none


@needs_libraries
def test_failures_are_open_and_the_rest_is_folded(document, row, over):
    elements = Elements(page(document(row("a"), row("b"), over("c"))))
    tests = [details for details in elements.of("details") if details.get("id", "").startswith("test-")]
    assert ["open" in details for details in tests] == [True, False, False]


@pytest.mark.parametrize("missing", ["plotly.offline", "jinja2"])
def test_missing_libraries_are_named(command, raw, row, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    status, out, err = command(raw(row()), "--format=html")
    assert (status, out) == (2, "")
    assert err == "membudget: the HTML report needs plotly and jinja2: pip install 'pytest-membudget[html]'\n"
    with pytest.raises(UsageMistake):
        page({})


@needs_libraries
def test_a_browser_draws_it_and_runs_nothing_else(document, hostile_report, tmp_path):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium or google-chrome on this machine")
    path = tmp_path / "report.html"
    path.write_text(page(document(*hostile_report["tests"])), encoding="utf-8")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,8000", "--dump-dom",
         "--virtual-time-budget=8000",
         f"--user-data-dir={tmp_path / 'profile'}", path.as_uri()],
        capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    drawn = Elements(done.stdout)
    assert len([div for div in drawn.of("div") if "js-plotly-plot" in (div.get("class") or "")]) >= 1
    assert done.stdout.count('class="scatterlayer') >= 1
    assert not drawn.of("img")


@needs_libraries
def test_the_place_of_a_budget_is_named_and_of_a_test_without_a_mark_its_own(document, row):
    texts = [text.strip() for text in Elements(page(document(row(), row("z", selected=True)))).texts]

    assert [text for text in texts if text.endswith(" at")] == ["budget at", "test at"]
