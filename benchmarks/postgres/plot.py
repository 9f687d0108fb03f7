"""The picture: what things cost on PostgreSQL against how much there is."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness.plot import COLOURS


def draw(
    by_sessions: dict[str, dict[int, float]], by_history: dict[str, dict[int, float]], path: Path
) -> None:
    """Milliseconds, one line for each kind of work; flat is good."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 5), constrained_layout=True, sharey=True)
    for axis, curves, label in (
        (axes[0], by_sessions, "sessions in the store"),
        (axes[1], by_history, "messages in the session"),
    ):
        for number, (name, curve) in enumerate(curves.items()):
            values = [seconds * 1e3 for seconds in curve.values()]
            axis.plot(list(curve), values, marker="o", markersize=3, label=name, color=COLOURS[number])
        axis.set(xscale="log", xlabel=label, ylabel="milliseconds")
        axis.set_ylim(bottom=0)
        axis.grid(visible=True, which="major", alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
