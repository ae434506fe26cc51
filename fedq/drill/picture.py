"""Results as one self-contained HTML file, with a picture of each timeline (SVG)."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fedq.drill.report import timeline
from fedq.drill.result import Outcome, Result, rounded
from fedq.drill.runs import Run
from fedq.drill.timeline import Mark, What

WIDTH, LEFT, ROW, TOP = 960, 190, 18, 34
COLOURS = ("#3b6ea5", "#c9702b", "#4d8f57", "#8a5a9c", "#a5833b", "#5a8a8a")
FLAGS = {
    What.FAULT: "#b3261e",
    What.HEALED: "#2e7d32",
    What.FENCED: "#6a1b9a",
    What.PHASE: "#777777",
}
"""Marks that are drawn as upright lines through all jobs."""
DOTS = {What.STOPPED: "#b3261e", What.ADOPTED: "#2e7d32", What.REMOVED: "#444444"}
VERDICT = {
    Outcome.PASSED: "#2e7d32",
    Outcome.FAILED: "#b3261e",
    Outcome.NOT_HELD: "#b26a00",
    Outcome.SKIPPED: "#777777",
}
MOST_JOBS = 60

_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1000px;padding:0 1rem;
color:#1c1c1c;background:#fff}
table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .7rem;text-align:right;border-bottom:1px solid #ddd}
th:first-child,td:first-child,th:nth-child(2),td:nth-child(2){text-align:left}
section{margin:2.5rem 0}pre{background:#f5f5f5;padding:.8rem;overflow:auto;font-size:12.5px}
svg{width:100%;height:auto}li.no{color:#b3261e}.badge{color:#fff;border-radius:4px;padding:0 .5em}
"""


def page(results: Sequence[Result]) -> str:
    """The whole file."""
    rows = "".join(_row(result) for result in results)
    keys = [
        "detect_s",
        "stop_s",
        "rerun_s",
        "overlap_s",
        "lost_jobs",
        "duplicate_starts",
        "wasted_gpu_s",
    ]
    heads = "".join(f"<th>{escape(key)}</th>" for key in ["drill", "outcome", *keys])
    parts = "".join(_section(result) for result in results)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Fedq drills</title>'
        f"<style>{_STYLE}</style></head><body><h1>Drills</h1>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{parts}</body></html>\n"
    )


def _badge(outcome: Outcome) -> str:
    return (
        f'<span class="badge" style="background:{VERDICT[outcome]}">{escape(outcome.value)}</span>'
    )


def _row(result: Result) -> str:
    values = ["-" if value is None else f"{value:g}" for value in rounded(result.metrics).values()]
    cells = "".join(f"<td>{escape(value)}</td>" for value in values)
    link = f'<a href="#{escape(result.name)}">{escape(result.name)}</a>'
    return f"<tr><td>{link}</td><td>{_badge(result.outcome)}</td>{cells}</tr>"


def _section(result: Result) -> str:
    findings = "".join(
        f'<li class="{"yes" if f.held else "no"}">{escape(str(f))}</li>' for f in result.findings
    )
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in result.reasons)
    remarks = "".join(f"<li>{escape(remark)}</li>" for remark in result.remarks)
    facts = f"profile {result.profile}, tier {result.tier}" + (
        f"; {result.how}" if result.how else ""
    )
    name, moments = escape(result.name), escape("\n".join(timeline(result)))
    return (
        f'<section id="{name}"><h2>{name} {_badge(result.outcome)}</h2>'
        f"<p>{escape(result.shows)}<br><small>{escape(facts)}</small></p>"
        f"{svg(result) if result.runs or result.marks else ''}"
        f"{f'<h3>Why</h3><ul>{reasons}</ul>' if reasons else ''}"
        f"{f'<h3>Note</h3><ul>{remarks}</ul>' if remarks else ''}"
        f"{f'<h3>Expected and found</h3><ul>{findings}</ul>' if findings else ''}"
        f"<details><summary>All moments</summary><pre>{moments}</pre></details></section>"
    )


def svg(result: Result) -> str:
    """Jobs from top to bottom, time from left to right; a bar is a process that ran, coloured by
    cluster.
    """
    scale = _Scale(result)
    jobs = _jobs(result)
    clusters = sorted({run.subject.cluster for run in result.runs})
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(clusters)}
    bottom = TOP + ROW * max(1, len(jobs)) + 6
    parts = [_axis(scale, bottom)]
    for index, (uid, name) in enumerate(jobs):
        y = TOP + index * ROW
        parts.append(_text(LEFT - 8, y + 12, name, anchor="end"))
        parts += [
            _bar(scale, run, y, colours[run.subject.cluster])
            for run in result.runs
            if run.subject.job == uid
        ]
        own = [m for m in result.marks if m.job == name and m.what in DOTS]
        parts += [_dot(scale, mark, y) for mark in own]
    flags = [mark for mark in result.marks if mark.what in FLAGS and scale.has(mark.at)]
    parts += [_flag(scale, mark, bottom, i) for i, mark in enumerate(flags)]
    parts += _legend(colours, bottom + 40)
    height = bottom + 56
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" font-family="system-ui,sans-serif" '
        f'font-size="11"><title>{escape(result.name)}: what ran when</title>{"".join(parts)}</svg>'
    )


class _Scale:
    """Seconds to pixels."""

    def __init__(self, result: Result) -> None:
        moments = [mark.at for mark in result.marks if mark.what is not What.PHASE]
        for run in result.runs:
            moments += [run.start, run.end]
        self.zero = result.fault_at or min(moments, default=0.0)
        self.first = min(moments, default=0.0)
        self.last = max(max(moments, default=1.0), self.first + 1)

    def has(self, moment: float) -> bool:
        return self.first <= moment <= self.last

    def x(self, moment: float) -> float:
        share = (moment - self.first) / (self.last - self.first)
        return round(LEFT + share * (WIDTH - LEFT - 12), 1)

    def ticks(self) -> list[float]:
        """Round moments, counted from the fault."""
        span = self.last - self.first
        step = next((s for s in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600) if span / s <= 12), 1800)
        start = int((self.first - self.zero) // step) * step
        marks = [self.zero + start + i * step for i in range(15)]
        return [mark for mark in marks if self.has(mark)]


def _jobs(result: Result) -> list[tuple[str, str]]:
    order = dict.fromkeys(run.subject.job for run in result.runs)
    named = [(uid, result.job_names.get(uid, uid)) for uid in order]
    return sorted(named, key=lambda pair: pair[1])[:MOST_JOBS]


def _axis(scale: _Scale, bottom: int) -> str:
    parts = []
    for moment in scale.ticks():
        x = scale.x(moment)
        parts.append(f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{bottom}" stroke="#e4e4e4"/>')
        parts.append(_text(x, bottom + 14, f"{moment - scale.zero:g} s", anchor="middle"))
    return "".join(parts)


def _bar(scale: _Scale, run: Run, y: int, colour: str) -> str:
    subject = run.subject
    end = "" if run.exit is None else f", exit {run.exit}"
    title = f"attempt {subject.attempt} on {subject.cluster}, {run.seconds:.1f} s{end}"
    bars = "".join(
        f'<rect x="{scale.x(since)}" y="{y + 2}" height="{ROW - 5}" rx="2" fill="{colour}" '
        f'width="{max(1.0, scale.x(until) - scale.x(since)):.1f}"/>'
        for since, until in run.spans
    )
    label = _text(scale.x(run.start) + 3, y + 12, str(subject.attempt), fill="#fff")
    return f"<g><title>{escape(title)}</title>{bars}{label}</g>"


def _dot(scale: _Scale, mark: Mark, y: int) -> str:
    title = f"{mark.what.value} {mark.cluster} {mark.detail}"
    return (
        f'<circle cx="{scale.x(mark.at)}" cy="{y + ROW // 2}" r="3.5" fill="{DOTS[mark.what]}" '
        f'stroke="#fff"><title>{escape(title)}</title></circle>'
    )


def _flag(scale: _Scale, mark: Mark, bottom: int, index: int) -> str:
    x, colour = scale.x(mark.at), FLAGS[mark.what]
    words = mark.detail if mark.what is What.PHASE else mark.what.value
    title = f"{mark.what.value} {mark.cluster} {mark.detail}"
    return (
        f'<g><title>{escape(title)}</title><line x1="{x}" y1="{TOP - 4}" x2="{x}" y2="{bottom}" '
        f'stroke="{colour}" stroke-width="1.5" stroke-dasharray="4 2"/>'
        f"{_text(x + 2, 11 + 11 * (index % 2), words, fill=colour)}</g>"
    )


def _legend(colours: dict[str, str], y: int) -> list[str]:
    parts, x = [], LEFT
    for name, colour in colours.items():
        parts.append(f'<rect x="{x}" y="{y - 9}" width="11" height="11" fill="{colour}"/>')
        parts.append(_text(x + 16, y, name))
        x += 30 + 7 * len(name)
    return parts


def _text(x: float, y: float, words: str, *, anchor: str = "start", fill: str = "#333") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{fill}">{escape(words)}</text>'
