"""The idea in one picture: what a softmax forgets and what an anchor keeps."""

from __future__ import annotations

from functools import cache

from mooring.suite.report.figures.style import CYCLE, MUTED, SMALL, Picture, panel, styled

COPIES = (1, 2, 3)


@cache
@styled
def anchor_idea() -> Picture:
    """Attention of one slot over two sources that are each repeated r times, without and with an anchor of logit zero.

    All logits are zero, so each node has weight one: the sources share r each, the anchor has one (eq:anchored).
    """
    panels = []
    for title, anchor in (("Without an anchor", 0.0), ("With an anchor", 1.0)):
        figure, axes = panel(title, "copies of every source r", "share of attention", (3.1, 2.5))
        for copies in COPIES:
            total = 2 * copies + anchor
            bottom = 0.0
            for weight, ink, name in ((copies, CYCLE[0], "a"), (copies, CYCLE[5], "b"), (anchor, CYCLE[1], "anchor")):
                # Each copy is one block, so that the picture shows what is repeated.
                for _ in range(max(1, int(weight))) if weight else ():
                    height = weight / total / max(1, int(weight))
                    axes.bar(copies, height, 0.62, bottom, color=ink, edgecolor="white", lw=0.8)
                    bottom += height
                if weight and copies == COPIES[-1]:
                    middle = bottom - weight / total / 2
                    label = (
                        f"{name}, stays 1/2"
                        if not anchor
                        else (f"{name}, 1/{int(total)}" if name == "anchor" else name)
                    )
                    axes.text(copies + 0.42, middle, label, color=ink, fontsize=SMALL, va="center")
        axes.set_xticks(COPIES)
        axes.set_yticks([0, 0.5, 1])
        axes.set_xlim(0.5, 3.5)
        axes.axhline(0, color=MUTED, lw=0)
        panels.append(figure)
    caption = (
        "A slot attends to two sources, a and b, and both are repeated r times: without an anchor their shares never "
        "change, so the slot cannot know r. With an anchor of weight one in the same softmax, the anchor's share falls "
        "from 1/3 to 1/5 to 1/7, and 1/share - 1 is the number of nodes that wrote; the library keeps the log-odds of "
        "that share, the same information, beside the content."
    )
    return Picture("idea", "The idea in one picture", caption, tuple(panels))
