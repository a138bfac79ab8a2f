"""The results as a drawing for the documentation: bars of CPU per turn, and where the worker's own goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from xml.sax.saxutils import escape

_WIDTH: Final = 760
_LABEL: Final = 200
_BAR: Final = 430
_ROW: Final = 34
_PALETTE: Final = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb")
_STYLE: Final = (
    "text{font:13px system-ui,sans-serif;fill:#444}.title{font-weight:600;font-size:15px}.note{font-size:11px}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}}"
)
_TITLES: Final = {
    "floor_us": "aiokafka, consuming only",
    "worker_us": "engram-stream worker",
    "confluent_us": "confluent-kafka + fastavro",
    "faust_us": "Faust agent + fastavro",
}


def draw(document: Mapping[str, Any]) -> str:
    """Return the SVG of a document of results (see `bench.summary.as_document`)."""
    bars = [(title, document[key]) for key, title in _TITLES.items() if document[key] is not None]
    stages = {name: cost for name, cost in document["stages"].items() if cost > 0}
    lines = [_text(10, 24, "CPU µs per turn: less is better", "title")]
    lines += _bars(bars, top=42)
    top = 42 + _ROW * len(bars) + 24
    if stages:
        lines.append(_text(10, top, "where the worker’s go", "title"))
        lines += _stack(stages, top + 14)
        top += 14 + _ROW + 18 * len(stages) + 24
    lines.append(
        _text(10, top, f"{document['turns']:,} turns, {document['rounds']} rounds. {document['machine']}", "note")
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top + 14}" role="img" '
        f'aria-label="CPU per turn of the worker and its peers"><style>{_STYLE}</style>{"".join(lines)}</svg>\n'
    )


def _bars(bars: Sequence[tuple[str, float]], top: int) -> list[str]:
    longest = max((cost for _, cost in bars), default=1.0)
    lines = []
    for row, (title, cost) in enumerate(bars):
        y = top + row * _ROW
        width = max(1.0, _BAR * cost / longest)
        colour = _PALETTE[4] if title == _TITLES["worker_us"] else _PALETTE[0]
        lines.append(_text(10, y + 17, title))
        lines.append(f'<rect x="{_LABEL}" y="{y}" width="{width:.1f}" height="24" rx="3" fill="{colour}"/>')
        lines.append(_text(_LABEL + width + 8, y + 17, f"{cost:,.1f}"))
    return lines


def _stack(stages: Mapping[str, float], top: int) -> list[str]:
    total = sum(stages.values())
    x, lines = 10.0, []
    for number, (name, cost) in enumerate(stages.items()):
        width = (_WIDTH - 20) * cost / total
        colour = _PALETTE[number % len(_PALETTE)]
        lines.append(f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="24" fill="{colour}"/>')
        y = top + 44 + number * 18
        lines.append(f'<rect x="10" y="{y - 11}" width="12" height="12" rx="2" fill="{colour}"/>')
        lines.append(_text(28, y, f"{name}: {cost:.2f} µs, {cost / total:.0%}"))
        x += width
    return lines


def _text(x: float, y: float, content: str, style: str = "") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y}"{kind}>{escape(content)}</text>'
