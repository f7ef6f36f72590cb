"""Item big-picture: processes are placed by certify_sde, and the claims follow from the places."""

import numpy as np

import ergodica as eg
from ergodica_paper import big_picture
from ergodica_paper.big_picture import pictures, processes
from ergodica_paper.big_picture.processes import PLANS, Curl, Placed, WithoutGamma
from ergodica_paper.result import Ask


def residual(case):
    process, dim, start = case
    return eg.certify_sde(*process, dim, start=start)[processes.RESIDUAL]


def test_a_recipe_without_gamma_is_outside():
    assert residual(processes._recipe(PLANS, 0, 0, WithoutGamma)).figure > 1e-2


def test_a_random_sde_is_outside():
    assert residual((processes.random_sde([0, 1], 2), 2, None)).figure > 1e-2


def test_a_linear_process_is_inside_and_its_curl_is_found():
    cases = {case[1]: case for case in processes._cases(Ask())}
    for name in (processes.LINEAR, processes.SINGULAR):
        group, _, _, make = cases[name]
        process, dim, start = make()
        found = residual((process, dim, start))
        p = placed(group, found.figure)
        assert p.is_inside
        curl = processes._curl_of(p, process, 0)
        assert curl.words == processes.REBUILT
        assert curl.error < 1e-8


def test_what_has_no_curl_is_not_known_as_a_recipe():
    process = processes.random_sde([0, 1], 2)
    assert processes._curl_of(placed("random", 0.4), process, 0) == Curl()
    assert processes._curl_of(placed("random", 1e-17), process, 0).words == processes.NOT_FOUND


def placed(group, residual, name="x", curl=""):
    return Placed(group, name, name, 2, residual, 1e-12, Curl(curl, 1e-11 if curl == processes.REBUILT else None))


FOUND = [
    placed("recipes", 1e-16, curl=processes.MADE),
    placed("section 3", 0.0, "sgld", processes.MADE),
    placed("other route", 1e-16, "linear", processes.REBUILT),
    placed("random", 0.4),
    placed("no correction", 0.2),
    placed("naive", 0.1, "naive SGHMC"),
]


def test_both_inclusions_are_asked():
    assert big_picture.equal_claim(FOUND).verdict == "reproduced"
    lost = big_picture.equal_claim([*FOUND, placed("section 3", 0.3, "sgrld", processes.MADE)])
    assert lost.verdict == "reproduced under conditions"
    assert "sgrld" in lost.explanation
    assert lost.conditions == "every process with the law is a recipe"
    for other in (
        placed("random", 1e-17, "lucky"),
        placed("other route", 1e-17, "linear", processes.NOT_FOUND),
        placed("other route", 0.3, "linear"),
    ):
        claim = big_picture.equal_claim([*FOUND, other])
        assert claim.conditions == "every recipe has the law"
        assert other.name in claim.explanation
    nothing = [p for p in FOUND if p.group != "other route"]
    assert big_picture.equal_claim(nothing).verdict == "reproduced under conditions"


def test_claims_follow_from_the_places():
    assert big_picture.small_claim(FOUND).verdict == "reproduced"
    assert big_picture.naive_claim(FOUND).verdict == "reproduced"
    assert big_picture.small_claim([*FOUND, placed("random", 1e-17)]).verdict == "reproduced under conditions"
    kept = [p for p in FOUND if p.group != "naive"]
    assert big_picture.naive_claim([*kept, placed("naive", 1e-17)]).verdict == "not reproduced"


def test_pictures_show_what_is_there():
    assert "3 of 6" in pictures.sets(FOUND, 0).caption
    assert "3 inside and 0 outside" in pictures.sets(FOUND, 0).caption
    assert "nothing in between" in pictures.residuals(FOUND, 0).caption
    between = [*FOUND, placed("random", 1e-9)]
    assert "nothing in between" not in pictures.residuals(between, 0).caption
    assert pictures.counts_table(FOUND).rows[0][:4] == ("random recipes", 1, 1, 1)
    table = pictures.table_of(FOUND)
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_places_lie_in_their_sets():
    for p, (x, y) in zip(FOUND, pictures._places(FOUND, np.random.default_rng(0)), strict=True):
        in_inner = (x / pictures.INNER[0]) ** 2 + (y / pictures.INNER[1]) ** 2 < 1
        in_outer = (x / pictures.OUTER[0]) ** 2 + (y / pictures.OUTER[1]) ** 2 < 1
        assert in_inner == p.is_inside
        assert in_outer
