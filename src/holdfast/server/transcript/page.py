"""A conversation as one HTML page: no script, no reference to anything outside, the styles of the page inside.

Texts come from the renderer, which gives safe HTML; everything else is escaped here. A policy in the page forbids
scripts and loading, whatever is in it."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from holdfast.schema.rendered import (
    AssistantEntry,
    CompactionEntry,
    RenderedCall,
    RenderedReasoning,
    ShellEntry,
    UserEntry,
)
from holdfast.server.render.diff import diff_html
from holdfast.server.render.text import escaped
from holdfast.server.transcript.markdown import moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.schema.ledger import LedgerEntry
    from holdfast.schema.past import Changes
    from holdfast.schema.rendered import CallBody, Entry
    from holdfast.schema.session import Session
    from holdfast.schema.timeline import Timeline

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = """
html, body { height: auto; overflow: auto; display: block; }
body { max-width: 860px; margin: 0 auto; padding: 32px 20px 80px; background: var(--bg); color: var(--ink);
  font: 15px/1.6 var(--sans); }
h1 { font-size: 24px; margin: 0 0 6px; } h2.x { font-size: 17px; margin: 44px 0 10px; }
.x-meta { color: var(--ink3); font-size: 13px; } .x-meta b { color: var(--ink); font-weight: 600; }
.x-entry { margin: 22px 0; } .x-who { font-size: 12px; color: var(--ink3); margin-bottom: 4px; }
.x-you { background: var(--acc-bg); border-radius: 10px; padding: 10px 14px; }
.x-mark { color: var(--ink3); font-size: 12.5px; text-align: center; }
details.x { border: 1px solid var(--line); border-radius: 8px; margin: 8px 0; }
details.x > summary { cursor: pointer; padding: 6px 12px; font-size: 13px; overflow-wrap: anywhere; }
details.x > summary::before { content: "▸ "; color: var(--ink3); } details.x[open] > summary::before { content: "▾ "; }
details.x > div { border-top: 1px solid var(--line); padding: 8px 12px; overflow-x: auto; }
.x-bad { color: var(--bad); } .x-add { color: var(--add); }
table.x { border-collapse: collapse; width: 100%; font-size: 13px; }
table.x td, table.x th { text-align: left; padding: 4px 8px; border-bottom: 1px solid var(--line); }
table.x td.n, table.x th.n { text-align: right; font-variant-numeric: tabular-nums; }
.x-lane { display: grid; grid-template-columns: 110px 1fr; align-items: center; font-size: 12px; margin: 3px 0; }
.x-lane svg { width: 100%; height: 16px; background: var(--bg1); border-radius: 4px; }
.x-lane rect { fill: var(--c-new); } .x-lane rect.f { fill: var(--bad); }
pre { overflow-x: auto; }
"""


class PageWriter:
    def __init__(self, session: Session) -> None:
        self._session = session

    def head(self) -> str:
        session = self._session
        css = files("holdfast.server.web").joinpath("assets/app.css").read_text(encoding="utf-8")
        used = session.tokens
        total = used.input + used.output + used.reasoning + used.cache.read + used.cache.write
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escaped(session.title)}</title><style>{css}{STYLE}</style></head><body>"
            f'<h1>{escaped(session.title)}</h1><p class="x-meta">{moment(session.time.created)} · '
            f"{escaped(session.location.directory)} · <b>${session.cost or 0:.4f}</b> · <b>{total:,}</b> tokens · "
            f"{escaped(session.id)}</p>\n"
        )

    def entry(self, entry: Entry, bodies: Mapping[str, CallBody]) -> str:
        return "".join(_entry(entry, bodies)) + "\n"

    def foot(self, ledger: Sequence[LedgerEntry], timeline: Timeline, changes: Changes) -> str:
        return "".join((*_changes(changes), *_costs(ledger), *_lanes(timeline), "</body></html>\n"))


def _entry(entry: Entry, bodies: Mapping[str, CallBody]) -> Iterator[str]:
    if isinstance(entry, UserEntry):
        attached = "".join(f'<p class="note dim">attached: {escaped(file.name)}</p>' for file in entry.files)
        yield _block("You", entry.time.created, f'<div class="x-you md">{entry.html}{attached}</div>')
    elif isinstance(entry, AssistantEntry):
        parts = "".join(_part(part, bodies) for part in entry.parts)
        error = f'<p class="x-bad">{escaped(entry.error)}</p>' if entry.error else ""
        model = f" · {entry.model.provider_id}/{entry.model.id}" if entry.model is not None else ""
        cost = f" · ${entry.cost:.4f}" if entry.cost else ""
        yield _block(f"{entry.agent or 'assistant'}{model}{cost}", entry.time.created, parts + error)
    elif isinstance(entry, ShellEntry):
        body = f'<pre class="term">$ {escaped(entry.command)}\n{entry.html}</pre>'
        yield _block("You ran", entry.time.created, body)
    elif isinstance(entry, CompactionEntry):
        yield _folded("Summary of what came before", f'<div class="md">{entry.html}</div>')
    else:
        yield f'<p class="x-mark">{escaped(entry.title)}</p>'


def _part(part: object, bodies: Mapping[str, CallBody]) -> str:
    if isinstance(part, RenderedCall):
        body = bodies.get(part.id)
        failed = part.status == "error"
        counts = f' <span class="x-add">+{part.additions}</span> −{part.deletions or 0}' if part.additions else ""
        outcome = f' <span class="{"x-bad" if failed else "dim"}">{escaped(part.outcome or part.status)}</span>'
        line = f"<b>{escaped(part.name)}</b> <code>{escaped(part.title)}</code>{outcome}{counts}"
        return _folded(line, body.html if body is not None else "", escape=False)
    if isinstance(part, RenderedReasoning):
        return _folded("Reasoning", f'<div class="md dim">{part.html}</div>')
    html = getattr(part, "html", "")
    return f'<div class="md">{html}</div>'


def _block(who: str, time: int, content: str) -> str:
    return f'<section class="x-entry"><div class="x-who">{escaped(who)} · {moment(time)}</div>{content}</section>'


def _folded(line: str, content: str, *, escape: bool = True, opened: bool = False) -> str:
    state = " open" if opened else ""
    shown = escaped(line) if escape else line
    return f'<details class="x"{state}><summary>{shown}</summary><div>{content}</div></details>'


def _changes(changes: Changes) -> Iterator[str]:
    if not changes.files:
        return
    yield '<h2 class="x">Changed files</h2>'
    for file in changes.files:
        table, _ = diff_html(file.patch or "")
        yield _folded(f"{file.path}  +{file.additions} −{file.deletions}", table, opened=True)


def _costs(ledger: Sequence[LedgerEntry]) -> Iterator[str]:
    if not ledger:
        return
    head = "".join(f'<th class="n">{name}</th>' for name in ("input", "cached", "output", "cost"))
    yield f'<h2 class="x">Requests and costs</h2><table class="x"><tr><th>when</th><th>model</th>{head}</tr>'
    for entry in ledger:
        tokens, model = entry.tokens, entry.model
        counts = (tokens.input, tokens.cache.read, tokens.output) if tokens is not None else ("", "", "")
        cells = "".join(f'<td class="n">{count:,}</td>' if count != "" else "<td></td>" for count in counts)
        cost = f"${entry.cost:.4f}" if entry.cost is not None else ""
        name = escaped(f"{model.provider_id}/{model.id}") if model is not None else ""
        yield f'<tr><td>{moment(entry.time)}</td><td>{name}</td>{cells}<td class="n">{cost}</td></tr>'
    yield "</table>"


def _lanes(timeline: Timeline) -> Iterator[str]:
    """Each lane as a bar from the first to the last span; what lasts has no end and is left out."""
    spans = [span for span in timeline.spans if span.end is not None]
    if not spans:
        return
    start, end = min(span.start for span in spans), max(span.end or 0 for span in spans)
    scale = 1000 / max(end - start, 1)
    yield f'<h2 class="x">Timeline</h2><p class="x-meta">{moment(start)} — {moment(end)}</p>'
    for lane in dict.fromkeys(span.lane for span in spans):
        bars = "".join(
            f'<rect x="{(span.start - start) * scale:.1f}" y="2" height="12" '
            f'width="{max(((span.end or 0) - span.start) * scale, 1.5):.1f}"{" class=f" if span.failed else ""}>'
            f"<title>{escaped(span.name)}</title></rect>"
            for span in spans
            if span.lane == lane
        )
        svg = f'<svg viewBox="0 0 1000 16" preserveAspectRatio="none">{bars}</svg>'
        yield f'<div class="x-lane"><span>{lane}</span>{svg}</div>'
