"""Plots of a figure against a size, both on logarithmic scales."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Line", "draw"]

COLOURS = ("#0b6e99", "#d9730d", "#0f7b6c", "#ad1a72", "#6940a5", "#64473a")


class Line(NamedTuple):
    """One line of a plot: a name, and its figure at each size."""

    name: str
    points: Mapping[int, float]


def draw(title: str, axes: tuple[str, str], lines: list[Line]) -> str:
    """The plot as SVG, without a script in it.

    Args:
        axes: what the sizes and the figures are, units included.
        lines: their sizes, all together, become the marks of the first axis, at even distances.
    """
    import pygal
    from pygal.style import Style

    sizes = sorted({size for line in lines for size in line.points})
    chart = pygal.Line(
        width=760,
        height=440,
        js=(),
        no_prefix=True,  # else a number chosen at random would make each file differ
        logarithmic=True,
        style=Style(
            background="white",
            plot_background="white",
            guide_stroke_color="#e4e4e4",
            major_guide_stroke_color="#c8c8c8",
            guide_stroke_dasharray="1,0",
            major_guide_stroke_dasharray="1,0",
            font_family="sans-serif",
            colors=COLOURS,
        ),
        stroke_style={"width": 2.5},
        title=title,
        x_title=axes[0],
        y_title=axes[1],
        legend_at_bottom=True,
        legend_at_bottom_columns=1 if any(len(line.name) > 30 for line in lines) else 2,
        truncate_legend=-1,
    )
    chart.x_labels = [f"{size:,}" for size in sizes]
    chart.value_formatter = lambda value: f"{value:,.6g}"
    for line in lines:
        chart.add(
            line.name.replace("`", ""), [line.points.get(size) for size in sizes], allow_interruptions=False
        )
    return str(chart.render(is_unicode=True))
