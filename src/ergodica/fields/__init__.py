"""Fields: blocks of D and Q as functions of the phase. A field gives its operator at a point and owns its divergence.

For a block F between a row slot r and a column slot c, Theorem 1 needs (div F)_i = sum_j dF_ij/dc_j for the row slot
and, for the derived block -F^T of Q, the same of the transpose. Automatic differentiation gives the change of all
entries along one direction (a JVP); the divergence wants the change of column j along direction j, for every j. So in
general it costs as many JVPs as there are columns, and every kind of field is a way to need fewer:

    Constant     nothing changes: 0, found when the step is traced
    Scaled       F = c(x) I, so (div F)_i = dc/dx_i: one gradient
    Elementwise  F = diag f with df_i/dx_j = 0 for i != j: one JVP along (1, ..., 1) has all df_i/dx_i in it
    Diagonal     F = diag f, any f: the diagonal of its Jacobian, one JVP an entry, or an unbiased estimate by one JVP
    Dense        one JVP a column
    Coupling     F is one column over a scalar x, so (div F)_i = dF_i/dx: one JVP; the divergence of its transpose is
                 the trace of a Jacobian, had like that of Elementwise or Diagonal
"""

from ergodica.fields.base import EXACT_LIMIT, Field, as_number, jacobian_diagonal
from ergodica.fields.kinds import Constant, Coupling, Dense, Diagonal, Elementwise, Root, Scaled, Times, times

__all__ = [
    "EXACT_LIMIT",
    "Constant",
    "Coupling",
    "Dense",
    "Diagonal",
    "Elementwise",
    "Field",
    "Root",
    "Scaled",
    "Times",
    "as_number",
    "jacobian_diagonal",
    "times",
]
