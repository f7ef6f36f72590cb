"""The map of D and Q is read off the recipes: another recipe, another map."""

import numpy as np
import pytest

import ergodica as eg
from ergodica.verify.specimens import SAMPLERS
from ergodica_paper import map as drawn
from ergodica_paper.printed_samplers import SECTION_3
from ergodica_paper.style import LABELS

NAMES = ("hmc", "sghmc", "sgld", "sgrld")


@pytest.fixture(scope="module")
def places():
    return {name: drawn.place(name, 0) for name in NAMES}


@pytest.fixture
def summary(monkeypatch):
    monkeypatch.setattr(drawn, "SUMMARY", {name: drawn.SUMMARY[name] for name in NAMES})


def test_builders_stand_where_the_paper_says(places, summary):
    assert {name: p.cell for name, p in places.items()} == drawn.SUMMARY
    claims = drawn.summary_claim(places), drawn.printed_claim(places)
    assert [(claim.verdict, claim.kind) for claim in claims] == [("reproduced", "paper"), ("reproduced", "print")]
    assert f"Of {len(NAMES)} samplers {len(NAMES)} have" in claims[0].explanation
    assert f"({len(NAMES)} samplers)" in claims[1].explanation
    rows = {row[0]: row for row in drawn.table_of(places).rows}
    assert rows["HMC"][3:5] == ("none", "momentum, position: constant, +1 I")
    assert rows["SGRLD"][3] == "position: state-dependent (of position)"
    drawn.picture_of(places)


def test_a_changed_sign_changes_map_and_claim(places, summary, monkeypatch):
    def other_way(mass):
        return eg.Recipe(energy={"momentum": eg.Gaussian(mass)}, curl={("momentum", "position"): eg.Constant(-1.0)})

    monkeypatch.setattr(eg, "hmc", other_way)
    changed = places | {"hmc": drawn.place("hmc", 0)}
    assert drawn.summary_claim(changed).verdict == "reproduced"
    claim = drawn.printed_claim(changed)
    assert claim.verdict == "reproduced under conditions"
    assert claim.conditions == "SGHMC; SGLD; SGRLD"
    assert drawn.printed_claim({"hmc": changed["hmc"]}).verdict == "not reproduced"
    assert claim.figures["largest_difference"]["hmc"] == 2.0
    assert "HMC are others" in claim.explanation
    assert drawn.table_of(changed) != drawn.table_of(places)
    assert "-1 I" in str(drawn.table_of(changed).rows)


def test_an_adaptive_diffusion_moves_a_sampler(places, summary, monkeypatch):
    monkeypatch.setattr(eg, "sgld", lambda d: eg.sgrld(eg.Scaled(lambda z: 1.0 + z.position[0] ** 2)))
    changed = places | {"sgld": drawn.place("sgld", 0)}
    assert changed["sgld"].diffusion == "state-dependent"
    claim = drawn.summary_claim(changed)
    assert claim.verdict == "reproduced under conditions"
    assert "SGLD" not in claim.conditions.split("; ")
    assert "SGLD: D state-dependent, Q zero" in claim.explanation


def test_new_ground(places):
    new = drawn.MapPlace("gsgrhmc", "state-dependent", "state-dependent", {}, None)
    every = places | {"sgnht": places["sgld"]} | dict.fromkeys(drawn.NEW, new)
    claim = drawn.new_claim(every)
    assert claim.verdict == "reproduced"
    assert claim.figures["earlier_samplers"] == ["HMC", "SGHMC", "SGLD", "SGRLD", "SGNHT"]
    assert f"the {len(drawn.BEFORE)} earlier samplers" in claim.explanation
    assert drawn.new_claim(every | {"sgnht": new}).verdict == "not reproduced"


def test_all_of_section_3_is_placed_by_the_paper_and_printed():
    assert set(drawn.SUMMARY) == set(drawn.PRINTED) == set(SECTION_3)


@pytest.mark.parametrize("make", [drawn.summary_claim, drawn.printed_claim, drawn.new_claim])
def test_a_rule_is_the_same_whatever_comes_out(make):
    right = {name: drawn.MapPlace(name, *cell, {}, 0.0) for name, cell in drawn.SUMMARY.items()}
    wrong = {name: drawn.MapPlace(name, "zero", "zero", {}, 0.5) for name in drawn.SUMMARY}
    assert make(right).rule == make(wrong).rule
    assert (make(right).verdict, make(wrong).verdict) == ("reproduced", "not reproduced")


def test_kinds():
    ones = np.ones((4, 2, 2))
    assert drawn.kind_of(0 * ones) == "zero"
    assert drawn.in_words(ones) == "constant"
    assert drawn.in_words(-0.5 * np.tile(np.eye(2), (4, 1, 1))) == "constant, -0.5 I"
    assert drawn.kind_of(ones * np.arange(1, 5)[:, None, None]) == "state-dependent"


def test_every_builder_has_a_label():
    assert set(SAMPLERS) <= set(LABELS)
