"""Item big-picture: processes are placed by certify_sde, and the claims follow from the places."""

import numpy as np

import ergodica as eg
from ergodica.paper import big_picture
from ergodica.paper.big_picture import pictures, processes
from ergodica.paper.big_picture.processes import PLANS, Placed, WithoutGamma


def residual(case):
    process, dim, start = case
    return eg.certify_sde(*process, dim, start=start)[processes.RESIDUAL]


def test_a_recipe_without_gamma_is_outside():
    assert residual(processes._recipe(PLANS, 0, 0, WithoutGamma)).figure > 1e-2


def test_a_random_sde_is_outside():
    assert residual((processes.random_sde([0, 1], 2), 2, None)).figure > 1e-2


def placed(group, residual, name="x"):
    return Placed(group, name, name, 2, residual, 1e-12)


FOUND = [
    placed("recipes", 1e-16),
    placed("section 3", 0.0, "sgld"),
    placed("random", 0.4),
    placed("no correction", 0.2),
    placed("naive", 0.1, "naive SGHMC"),
]


def test_claims_follow_from_the_places():
    assert big_picture.inside_claim(FOUND).verdict == "reproduced"
    assert big_picture.outside_claim(FOUND).verdict == "reproduced"
    lost = [*FOUND, placed("section 3", 0.3, "sgrld")]
    assert big_picture.inside_claim(lost).verdict == "not reproduced"
    assert "sgrld" in big_picture.inside_claim(lost).explanation
    assert big_picture.inside_claim([*FOUND, placed("random", 1e-17)]).verdict == "not reproduced"
    assert big_picture.outside_claim([*FOUND, placed("naive", 1e-17)]).verdict == "not reproduced"


def test_pictures_show_what_is_there():
    assert "2 of 5" in pictures.sets(FOUND, 0).caption
    assert "nothing in between" in pictures.residuals(FOUND, 0).caption
    between = [*FOUND, placed("random", 1e-9)]
    assert "nothing in between" not in pictures.residuals(between, 0).caption
    assert pictures.counts_table(FOUND).rows[0][:4] == ("random recipes", 1, 1, 0)


def test_places_lie_in_their_sets():
    for p, (x, y) in zip(FOUND, pictures._places(FOUND, np.random.default_rng(0)), strict=True):
        in_inner = (x / pictures.INNER[0]) ** 2 + (y / pictures.INNER[1]) ** 2 < 1
        in_outer = (x / pictures.OUTER[0]) ** 2 + (y / pictures.OUTER[1]) ** 2 < 1
        assert in_inner == p.is_inside
        assert in_outer
