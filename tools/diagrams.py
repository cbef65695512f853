"""Draw docs/protocols/<machine>.svg from the table of each machine.

    python tools/diagrams.py            write the pictures
    python tools/diagrams.py --check    say which are stale; 1 if any is

A machine has, in one module of its package,

    TABLE     (state, input) -> (next state, action); None where the action decides
    IGNORED   (state, input) -> why nothing happens
    ILLEGAL   (state, input) -> why it cannot happen
    DECIDED   (state, input) -> the states that an action may choose, where TABLE has None;
              what is not listed stays where it is
    MOVES     (state, state) -> a move that no single input makes, and why

the last two if it needs them; `tests/checked.py` holds every machine to them. An input is a class
(event, question, message) or the name of a timer. Boxes are states, in the order of their enum;
inside stands what keeps the machine there. Forward arrows run on the right, backward ones on the
left. Below are the pairs without effect, by reason.
"""

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from html import escape
from pathlib import Path
from textwrap import wrap
from types import ModuleType

__all__ = ["FOLDER", "Chart", "Input", "charts", "name_of", "picture"]

FOLDER = Path(__file__).parents[1] / "docs" / "protocols"

Input = type | str
Pair = tuple[Enum, Input]

# Measures in pixels: a character of the font, a line, the box of a state, the way of an arrow.
_CHAR, _LINE, _PAD = 7.3, 17, 12
_BOX_CHARS, _LABEL_CHARS = 46, 28
_BOX = int(_BOX_CHARS * _CHAR) + 2 * _PAD
_SIDE = int(_LABEL_CHARS * _CHAR) + 5 * _PAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The tables of one machine."""

    name: str
    module: str
    table: Mapping[Pair, tuple[Enum | None, str]]
    ignored: Mapping[Pair, str]
    illegal: Mapping[Pair, str]
    decided: Mapping[Pair, tuple[Enum, ...]]
    other: Mapping[tuple[Enum, Enum], str]

    @property
    def states(self) -> list[Enum]:
        """All states, as the enum has them."""
        return list(type(next(iter(self.table))[0]))

    @property
    def inputs(self) -> list[Input]:
        """All inputs, in the order in which the tables first name them."""
        named = (pair[1] for part in (self.table, self.ignored, self.illegal) for pair in part)
        return list(dict.fromkeys(named))

    def targets(self, pair: Pair) -> tuple[Enum, ...]:
        """Where an input may lead."""
        after = self.table[pair][0]
        return self.decided.get(pair, (pair[0],)) if after is None else (after,)

    def moves(self) -> dict[tuple[Enum, Enum], list[str]]:
        """What leads from state to state, by (from, to)."""
        found: dict[tuple[Enum, Enum], list[str]] = {}
        for pair in self.table:
            for target in self.targets(pair):
                found.setdefault((pair[0], target), []).append(name_of(pair[1]))
        for move, why in self.other.items():
            found.setdefault(move, []).append(why)
        return found


def charts() -> list[Chart]:
    """The machines of control/, and the peer, in the order of their names."""
    packages = [importlib.import_module("shoal.peer")]
    control = importlib.import_module("shoal.control")
    for found in pkgutil.iter_modules(control.__path__, "shoal.control."):
        packages.append(importlib.import_module(found.name))
    return sorted((chart for one in packages for chart in _of(one)), key=lambda chart: chart.name)


def _of(package: ModuleType) -> Iterator[Chart]:
    """The tables of a package stand in the module that defines them, and in one only."""
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        path = Path(package.__path__[0]) / f"{found.name.rpartition('.')[2]}.py"
        if not path.exists() or "\nTABLE: " not in path.read_text(encoding="utf-8"):
            continue
        module = importlib.import_module(found.name)
        yield Chart(
            name=package.__name__.rpartition(".")[2],
            module=found.name,
            table=module.TABLE,
            ignored=module.IGNORED,
            illegal=module.ILLEGAL,
            decided=getattr(module, "DECIDED", {}),
            other=getattr(module, "MOVES", {}),
        )


def name_of(one: Input) -> str:
    """An input as it stands in a picture; a timer is told from an event by its word."""
    return f"timer {one}" if isinstance(one, str) else one.__name__


# --- drawing --------------------------------------------------------------------------------------


class _Canvas:
    """Shapes and texts, collected."""

    def __init__(self) -> None:
        self._shapes: list[str] = []
        self._texts: list[str] = []

    @property
    def parts(self) -> list[str]:
        """Texts last: they lie on top."""
        return self._shapes + self._texts

    def text(self, x: float, y: float, line: str, kind: str = "", anchor: str = "start") -> None:
        extra = f' class="{kind}"' if kind else ""
        self._texts.append(
            f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"{extra}>{escape(line)}</text>'
        )

    def box(self, x: float, y: float, width: float, height: float) -> None:
        self._shapes.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="8"/>'
        )

    def arrow(self, path: str) -> None:
        self._shapes.append(f'<path d="{path}" marker-end="url(#head)"/>')


def picture(chart: Chart) -> str:
    """The whole SVG."""
    canvas = _Canvas()
    left = _SIDE if _backward(chart) else 2 * _PAD
    width = left + _BOX + _SIDE + 2 * _PAD
    canvas.text(2 * _PAD, 30, f"{chart.name}: states and what moves between them", "title")
    canvas.text(2 * _PAD, 50, "inside a box: what is handled there and leaves it there", "small")
    boxes, bottom = _boxes(canvas, chart, left, 72)
    _arrows(canvas, chart, boxes, left)
    bottom = _reasons(canvas, "Ignored, because", chart.ignored, bottom + 30, width)
    bottom = _reasons(canvas, "Illegal, because", chart.illegal, bottom + 14, width)
    canvas.text(2 * _PAD, bottom + 20, f"Drawn from {chart.module} by tools/diagrams.py.", "small")
    height = bottom + 36
    return (
        _HEAD.format(width=width, height=f"{height:.0f}") + "\n".join(canvas.parts) + "\n</svg>\n"
    )


_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" \
viewBox="0 0 {width} {height}">
<style>
text {{ font: 12px "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2d3d; }}
.title {{ font-size: 15px; font-weight: bold; }}
.state {{ font-size: 14px; font-weight: bold; }}
.small {{ fill: #5b6b7b; }}
.move {{ paint-order: stroke; stroke: #ffffff; stroke-width: 5px; stroke-linejoin: round; }}
rect {{ fill: #eef4fa; stroke: #3b6ea5; stroke-width: 1.5; }}
path {{ fill: none; stroke: #3b6ea5; stroke-width: 1.5; }}
#head path {{ fill: #3b6ea5; stroke: none; }}
</style>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" \
orient="auto"><path d="M0 0L10 5L0 10z"/></marker></defs>
<rect x="0" y="0" width="100%" height="100%" style="fill: #ffffff; stroke: none"/>
"""


def _backward(chart: Chart) -> bool:
    order = {state: number for number, state in enumerate(chart.states)}
    return any(order[high] > order[low] for high, low in chart.moves())


def _boxes(
    canvas: _Canvas, chart: Chart, left: float, top: float
) -> tuple[dict[Enum, tuple[float, float]], float]:
    """Draw the states; where each begins and ends, and where the last ends."""
    moves = chart.moves()
    boxes: dict[Enum, tuple[float, float]] = {}
    states = chart.states
    for number, state in enumerate(states):
        lines = wrap(", ".join(moves.get((state, state), [])), _BOX_CHARS)
        leaving = sum(start is state and end is not state for start, end in moves)
        height = _LINE * len(lines) + 2 * _PAD + 14 + (6 if lines else 0)
        height = max(height, 22 + 12 * leaving)
        canvas.box(left, top, _BOX, height)
        canvas.text(left + _PAD, top + _PAD + 11, str(state.value), "state")
        for row, line in enumerate(lines):
            canvas.text(left + _PAD, top + _PAD + 14 + 6 + _LINE * (row + 1) - 4, line)
        boxes[state] = (top, top + height)
        after = states[number + 1] if number + 1 < len(states) else None
        label = _label(moves.get((state, after), [])) if after else []
        top += height + max(44, _LINE * len(label) + 26)
    return boxes, boxes[states[-1]][1]


def _label(inputs: list[str]) -> list[str]:
    return wrap(", ".join(inputs), _LABEL_CHARS, break_long_words=False)


def _arrows(
    canvas: _Canvas, chart: Chart, boxes: Mapping[Enum, tuple[float, float]], left: float
) -> None:
    """To the next state straight down; past states, or back, around them."""
    order = {state: number for number, state in enumerate(chart.states)}
    used: dict[tuple[Enum, str], int] = {}
    around = {True: 0, False: 0}
    moves = [(start, end, inputs) for (start, end), inputs in chart.moves().items()]
    moves.sort(key=lambda move: abs(order[move[0]] - order[move[1]]))
    for start, end, inputs in moves:
        if start is end:
            continue
        lines = _label(inputs)
        if order[end] == order[start] + 1:
            x = left + _BOX / 2
            low, high = boxes[start][1], boxes[end][0]
            canvas.arrow(f"M{x:.0f} {low:.0f}L{x:.0f} {high:.0f}")
            first = (low + high) / 2 - _LINE * (len(lines) - 1) / 2 + 4
            for row, line in enumerate(lines):
                canvas.text(x + 10, first + _LINE * row, line, "move")
            continue
        right = order[end] > order[start]
        edge = left + _BOX if right else left
        out = 1 if right else -1
        leaving = used[start, "out"] = used.get((start, "out"), 0) + 1
        coming = used[end, "in"] = used.get((end, "in"), 0) + 1
        y0 = boxes[start][0] + 12 + 12 * leaving if right else boxes[start][0] + 8 + 10 * leaving
        y1 = boxes[end][0] + 8 + 10 * coming if right else boxes[end][1] - 2 - 10 * coming
        far = edge + out * (26 + 40 * around[right])
        canvas.arrow(
            f"M{edge:.0f} {y0:.0f}C{far:.0f} {y0:.0f} {far:.0f} {y1:.0f} {edge:.0f} {y1:.0f}"
        )
        _beside(canvas, lines, (edge + 3 * far) / 4 + out * 6, (y0 + y1) / 2, right=right)
        around[right] += 1


def _beside(canvas: _Canvas, lines: list[str], x: float, y: float, *, right: bool) -> None:
    first = y - _LINE * (len(lines) - 1) / 2 + 4
    for row, line in enumerate(lines):
        canvas.text(x, first + _LINE * row, line, "move", anchor="start" if right else "end")


def _reasons(
    canvas: _Canvas, title: str, pairs: Mapping[Pair, str], top: float, width: float
) -> float:
    """Pairs without effect, by reason and state; where the list ends."""
    if not pairs:
        return top
    canvas.text(2 * _PAD, top, title, "state")
    grouped: dict[str, dict[str, list[str]]] = {}
    for (state, one), reason in pairs.items():
        by_state = grouped.setdefault(reason, {})
        by_state.setdefault(str(state.value), []).append(name_of(one))
    characters = int((width - 6 * _PAD) / _CHAR)
    for reason, by_state in grouped.items():
        top += 5
        for line in wrap(reason, characters):
            top += _LINE
            canvas.text(3 * _PAD, top, line)
        for state_name, inputs in by_state.items():
            for line in wrap(f"{state_name}: {', '.join(inputs)}", characters - 2):
                top += _LINE
                canvas.text(5 * _PAD, top, line, "small")
    return top + _PAD


def main() -> int:
    """Write or check all pictures."""
    parser = argparse.ArgumentParser(description="state diagrams of the machines")
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = 0
    for chart in charts():
        path = FOLDER / f"{chart.name}.svg"
        drawn = picture(chart)
        if path.exists() and path.read_text(encoding="utf-8") == drawn:
            continue
        stale += 1
        print(f"{'stale' if check else 'wrote'} {path.name}")
        if not check:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(drawn, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
