"""The picture: what a turn costs against how long the history is."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw(curves: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Time and bytes a turn, one line a store, both axes logarithmic."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 5), constrained_layout=True)
    for axis, key, title in (
        (axes[0], "ms", "milliseconds a turn of 4 durable appends"),
        (axes[1], "bytes", "bytes written a turn"),
    ):
        for number, (name, curve) in enumerate(curves.items()):
            axis.plot(curve["turn"], curve[key], marker="o", markersize=3, label=name, **style(name, number))
        axis.set(xscale="log", yscale="log", xlabel="turns in the session before", title=title)
        axis.grid(visible=True, which="major", alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


COLOURS = ("tab:blue", "tab:cyan", "tab:green", "tab:purple", "tab:orange", "tab:brown")


def style(name: str, number: int) -> dict[str, Any]:
    """Clew stands out; the limit is dashed."""
    if name == "clew":
        return {"linewidth": 2.5, "color": "tab:red", "zorder": 3}
    if name == "raw":
        return {"linestyle": "--", "color": "black"}
    return {"linewidth": 1.2, "color": COLOURS[number % len(COLOURS)]}
