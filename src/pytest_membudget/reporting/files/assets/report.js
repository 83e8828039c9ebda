"use strict";
// Draws each chart when its test is opened, in the colours of the page.
(function () {
  const GIB = 2 ** 30;
  const charts = new Map(JSON.parse(document.getElementById("charts").textContent).map((c) => [c.id, c]));
  const drawn = new Set();

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    return { page: of("--page"), ink: of("--ink"), faint: of("--faint"), grid: of("--grid"),
             failure: of("--failure") };
  }

  function traces(chart, colour) {
    const areas = chart.components.map((part) => ({
      name: part.name, x: chart.moments, y: part.bytes.map((size) => size / GIB), stackgroup: "held",
      mode: "lines", line: { shape: "hv", width: 0.5, color: part.colour }, fillcolor: part.colour + "cc",
      hovertemplate: "%{y:.3f} GiB",
    }));
    if (chart.base) {
      areas.push({ name: "base, all (stretched)", x: chart.base.moments,
                   y: chart.base.bytes.map((size) => size / GIB), mode: "lines",
                   line: { shape: "hv", width: 1.5, dash: "dot", color: colour.ink },
                   hovertemplate: "%{y:.3f} GiB" });
    }
    areas.push({ name: "peak", x: [chart.peak.moment], y: [chart.peak.bytes / GIB], mode: "markers",
                 marker: { symbol: "diamond", size: 11, color: colour.failure,
                           line: { width: 1.5, color: colour.page } },
                 hovertemplate: "%{y:.3f} GiB" });
    return areas;
  }

  function layout(chart, colour) {
    const last = chart.moments[chart.moments.length - 1];
    const shapes = chart.phases.map(([moment]) => ({
      type: "line", x0: moment, x1: moment, yref: "paper", y0: 0, y1: 1,
      line: { width: 1, dash: "dot", color: colour.faint },
    }));
    const notes = chart.phases
      .filter(([moment], number) => ((chart.phases[number + 1] || [last])[0] - moment) > last / 14)
      .map(([moment, phase]) => ({
        x: moment, y: 1, yref: "paper", xanchor: "left", yanchor: "bottom", text: phase, showarrow: false,
        font: { size: 11, color: colour.faint },
      }));
    const right = chart.peak.moment > last / 2;
    notes.push({ x: chart.peak.moment, y: chart.peak.bytes / GIB, ax: right ? -70 : 70, ay: -22,
                 text: "peak " + (chart.peak.bytes / GIB).toFixed(2) + " GiB", arrowcolor: colour.failure,
                 font: { size: 13, color: colour.ink }, bgcolor: colour.page });
    if (chart.limit !== null) {
      shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: chart.limit / GIB, y1: chart.limit / GIB,
                    line: { width: 1.5, dash: "dash", color: colour.failure } });
      notes.push({ xref: "paper", x: 0, y: chart.limit / GIB, xanchor: "left", yanchor: "bottom",
                   text: "budget " + (chart.limit / GIB).toFixed(2) + " GiB", showarrow: false,
                   font: { size: 11, color: colour.failure } });
    }
    const most = Math.max(chart.peak.bytes, chart.limit || 0, ...(chart.base ? chart.base.bytes : []));
    const axis = { gridcolor: colour.grid, zerolinecolor: colour.grid, linecolor: colour.grid };
    return {
      paper_bgcolor: colour.page, plot_bgcolor: colour.page, font: { color: colour.ink, size: 12 },
      margin: { l: 60, r: 10, t: 30, b: 45 }, hovermode: "x unified", shapes, annotations: notes,
      hoverlabel: { bgcolor: colour.page, bordercolor: colour.grid, font: { color: colour.ink } },
      xaxis: { ...axis, title: { text: "allocations and frees, one after the other" }, range: [0, last] },
      yaxis: { ...axis, title: { text: "GiB requested" }, range: [0, most * 1.12 / GIB] },
      legend: { traceorder: "reversed" }, showlegend: true,
    };
  }

  function draw(id) {
    const chart = charts.get(id), colour = colours();
    Plotly.react(id, traces(chart, colour), layout(chart, colour),
                 { responsive: true, displaylogo: false, modeBarButtons: [
                   ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]] });
    drawn.add(id);
  }

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting && !drawn.has(entry.target.id)) draw(entry.target.id);
    }
  }, { rootMargin: "400px" });
  for (const id of charts.keys()) seen.observe(document.getElementById(id));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach(draw));
  window.addEventListener("beforeprint", () => charts.forEach((_, id) => drawn.has(id) || draw(id)));

  function openTarget() {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") target.open = true;
  }
  window.addEventListener("hashchange", openTarget);
  openTarget();
})();
