"""Draws docs/img/idea.svg, the picture of the idea: `python tools/picture.py`.

Nodes of a graph write to slots and read from them. The ring of a slot shows the share of its anchor, one against the
number of nodes that wrote there.
"""

from __future__ import annotations

import math
from pathlib import Path

OUT = Path(__file__).parents[1] / "docs" / "img" / "idea.svg"
INK, SOFT, EDGE, WRITE, READ, ANCHOR = "#1b2430", "#55606e", "#b9c2cd", "#2f6fb0", "#b85c00", "#8145b5"
COLOURS = ("#2f8fc4", "#c9962b", "#3d9c68")
WIDTH, HEIGHT = 860, 300

# One graph twice: what writes on the left, what reads on the right. Colour is the slot that a node goes by.
NODES = (
    (40, 60, 0),
    (105, 35, 0),
    (150, 95, 1),
    (70, 130, 1),
    (35, 195, 2),
    (120, 180, 2),
    (165, 235, 2),
    (85, 255, 2),
)
EDGES = ((0, 1), (1, 2), (2, 3), (3, 0), (3, 5), (4, 5), (5, 6), (5, 7), (4, 7))
SLOTS = ((430, 62), (430, 148), (430, 234))
RIGHT = 650


def circle(x: float, y: float, radius: float, **style: str | float) -> str:
    return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" {attributes(style)}/>'


def path(points: str, **style: str | float) -> str:
    return f'<path d="{points}" {attributes({"fill": "none", **style})}/>'


def words(x: float, y: float, text: str, **style: str | float) -> str:
    given = {"font_size": 15, "fill": INK, "text_anchor": "middle", **style}
    return f'<text x="{x:g}" y="{y:g}" {attributes(given)}>{text}</text>'


def attributes(style: dict[str, str | float]) -> str:
    return " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in style.items())


def ring(x: float, y: float, share: float, colour: str) -> list[str]:
    """A slot: the anchor's share of the ring, from the top clockwise, and the rest in the slot's colour."""
    turn = 2 * math.pi * share
    end = f"{x + 24 * math.sin(turn):.1f} {y - 24 * math.cos(turn):.1f}"
    arc = f"M{x} {y - 24}A24 24 0 {int(share > 0.5)} 1 {end}"
    return [
        circle(x, y, 24, fill="#fff", stroke=colour, stroke_width=9),
        path(arc, stroke=ANCHOR, stroke_width=9),
    ]


def graph(left: float) -> list[str]:
    lines = "".join(f"M{left + NODES[a][0]} {NODES[a][1]}L{left + NODES[b][0]} {NODES[b][1]}" for a, b in EDGES)
    dots = [circle(left + x, y, 9, fill=COLOURS[slot], stroke="#fff", stroke_width=1.5) for x, y, slot in NODES]
    return [path(lines, stroke=EDGE, stroke_width=1.6), *dots]


def links(left: float, kind: str) -> list[str]:
    found = []
    for x, y, slot in NODES:
        sx, sy = SLOTS[slot]
        start, end = (left + x + 10, y), (sx - 32, sy)
        if kind == "read":
            start, end = (sx + 32, sy), (left + x - 10, y)
        middle = (start[0] + end[0]) / 2
        curve = f"M{start[0]:g} {start[1]:g}C{middle:g} {start[1]:g} {middle:g} {end[1]:g} {end[0]:g} {end[1]:g}"
        dashes = {"stroke_dasharray": "6 5"} if kind == "read" else {}
        found.append(path(curve, stroke=WRITE if kind == "write" else READ, stroke_width=1.8, opacity=0.75, **dashes))
    return found


def picture() -> str:
    """The SVG, with text as text."""
    counts = [sum(slot == one for _, _, slot in NODES) for one in range(len(SLOTS))]
    shapes = [*links(0, "write"), *links(RIGHT, "read"), *graph(0), *graph(RIGHT)]
    for (x, y), count, colour in zip(SLOTS, counts, COLOURS, strict=True):
        shapes += ring(x, y, 1 / (1 + count), colour)
        shapes.append(words(x, y + 6, f"×{count}", font_size=16, font_weight="bold"))
    shapes += [
        words(250, 24, "write", fill=WRITE, font_weight="bold"),
        words(595, 24, "read", fill=READ, font_weight="bold"),
        words(430, 24, "slots", font_weight="bold"),
        words(430, 290, "purple: the anchor’s share, 1 / (1 + count)", fill=ANCHOR, font_size=14),
        words(100, 290, "nodes", fill=SOFT),
        words(RIGHT + 100, 290, "nodes", fill=SOFT),
    ]
    title = "Nodes write to slots and read from them. The anchor's share of a slot says how many wrote there."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="system-ui, sans-serif" role="img" aria-label="{title}"><title>{title}</title>\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#fff"/>\n' + "\n".join(shapes) + "\n</svg>\n"
    )


if __name__ == "__main__":
    OUT.write_text(picture(), encoding="utf-8")
