"""The slips of the printed paper that make a wrong sampler: where, as printed, right, and its name in `WRONG`."""

from typing import NamedTuple


class Slip(NamedTuple):
    """One printed formula, the right one, and the name of the wrong sampler in `ergodica_paper.printed.WRONG`."""

    where: str
    printed: str
    right: str
    name: str


SLIPS = (
    Slip("SGNHT's energy", "(xi - A)^2 / (2d)", "(d/2) (xi - A)^2", "sgnht_printed_energy"),
    Slip(
        "Eq. `ExSGRHMC`",
        "-eps [G^-1/2 grad U + grad G^-1/2 - G^-1 r]",
        "-eps [G^-1/2 grad U - grad G^-1/2 + G^-1 r], as in the algorithm box",
        "sgrhmc_dense_printed",
    ),
    Slip("Eq. `SGRLD`", "-eps [G^-1 grad U + Gamma]", "-eps [G^-1 grad U - Gamma]", "sgrld_printed"),
    Slip(
        "Eqs. `simple-update`, `true-update`",
        "-eps [(D + Q) grad H + Gamma]",
        "-eps [(D + Q) grad H - Gamma], as in Eq. `CorrectDrift`",
        "dense_3d_printed",
    ),
    Slip(
        "SGHMC paragraph, gradient noise N(0, eps^2 V)",
        "D = eps V",
        "2D = eps V, so D = (eps/2) V, friction at least (eps/2) V",
        "sghmc_printed_friction",
    ),
    Slip(
        "text on SGRLD, the older Gamma",
        "2 det(G)^-1/2 d(G^-1 det(G)^1/2)",
        "Gamma_i = sum_j d_j (G^-1)_ij",
        "sgrld_older_correction",
    ),
    Slip(
        "text on SGRLD, the older Gamma without its 2",
        "det(G)^-1/2 d(G^-1 det(G)^1/2)",
        "Gamma_i = sum_j d_j (G^-1)_ij",
        "sgrld_geometric_correction",
    ),
    Slip(
        "supplement, G from the minibatch potential",
        "G of the gradient's own batch",
        "G of an independent batch, or of all data",
        "own_batch",
    ),
)
