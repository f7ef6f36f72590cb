"""Items that take no time, for the tests of the frame around them."""

import math

from ergodica_paper.result import Ask, Claim, PaperItem, Picture, Result, Table
from ergodica_paper.style import COLOURS, LABELS, MARKERS, new_figure

KINDS = ("paper", "print", "ours")
VERDICTS = ("reproduced", "not reproduced", "reproduced under conditions", "illustration, no verdict")


def found(name: str, ask: Ask) -> Result:
    """Of every kind of thing an item can find, with names and figures that follow from the ask."""
    steps = [0.04, 0.02, 0.01]
    rows = [(sampler, step, round(step * (i + ask.seed + 1), 6)) for i, sampler in enumerate(COLOURS) for step in steps]
    figure, axes = new_figure(size=(6.0, 3.0))
    for sampler in ("sgld", "sghmc", "gsgrhmc"):
        points = [(step, bias) for one, step, bias in rows if one == sampler]
        axes.loglog(*zip(*points, strict=True), color=COLOURS[sampler], marker=MARKERS[sampler], label=LABELS[sampler])
    axes.set(xlabel="step size", ylabel="KL divergence (nats)")
    axes.legend()
    claims = [
        Claim(
            f"{name}-{i}", f"Claim {i} of {name} & <others> holds", f"section {i + 1}", verdict,  # pyright: ignore
            f"With `eg.sgld` it is {rows[0][2]:.3g} ± {rows[1][2]:.2g} nats, {i} standard errors from none.",
            {"bias": rows[0][2], "error": rows[1][2], "by sampler": {"SGLD": [0.1, math.nan], "runs": 123456}},
            "steps below 0.01" if "conditions" in verdict else "", "bias", KINDS[i % len(KINDS)],
            f"Rule {i} of {name}.",
        )
        for i, verdict in enumerate(VERDICTS)
    ]  # fmt: skip
    return Result(
        [f"What `{name}` is about, in a paragraph of its own that goes on for a while, so that lines are broken."],
        claims,
        [Picture("bias", "Bias against step size, a straight line. The smaller the better.", figure, "bias")],
        [
            Table("bias", "Bias of every sampler", ["sampler", "step size", "bias (nats)"], rows),
            Table(
                "times", "Seconds per 100 documents, and a very long row", ["sampler", "ours", "theirs", *"abcdefgh"],
                [["SGRLD", 0.4, 2.2, *range(100000000, 800000001, 100000000)], ["SGLD", math.nan, None, *"hgfedcba"]],
                shown=True, quoted=["theirs"],
            ),
        ],
        {"step sizes": steps, "samples": 300_000},
        {"naive gSGRHMC at step 0.04": 2, "SGLD": 0},
    )  # fmt: skip


def fake(name: str = "map", run=None) -> PaperItem:
    """An item of this name; as in the real ones, topic models read the corpus."""
    return PaperItem(
        name, f"The title of {name}", "figure 2", run or (lambda ask: found(name, ask)),
        (f"ergodica_paper/{name.replace('-', '_')}.py", "ergodica/samplers/langevin.py"), (2.0, 60.0),
        reads_corpus=name.startswith("lda-"),
    )  # fmt: skip
