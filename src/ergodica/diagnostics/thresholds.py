"""How a verdict gets its thresholds: all of them are here, each with its reason.

A check fails for one of two reasons. Either a figure that is known well enough is beyond what a user would accept (the
first table), or it differs from what it should be by more standard errors than chance explains (`largest_z`, from
FALSE_ALARM). Where noise could hide what a user would not accept, a check is *undecided* (the second table).
"""

# What is acceptable -----------------------------------------------------------------------------------------------
LARGEST_R_HAT = 1.01  # rank-normalised: Vehtari et al. (2021), https://doi.org/10.1214/20-BA1221
ESS_PER_CHAIN, ESS_AT_MOST = 100, 400  # effective draws: the same paper, section 4
LARGEST_ERROR = 0.1  # of the sd, for the Monte Carlo error of means and sds: a tenth is invisible beside the sd
LARGEST_BIAS = 0.1  # of the sd, for what halving the step shows of means and sds: as much as the error above
LARGEST_WIDENING = (1 + LARGEST_BIAS) ** 2 - 1  # of a variance, where sds may be off by LARGEST_BIAS
LARGEST_DRIFT = 0.1  # of the sd of the second halves, for means and sds: as much as the error above
LONGEST_STILL = 0.1  # of a chain's draws in a row that may be exactly the same
LEAST_ACCEPTANCE = 0.4  # of trajectories: below it most work is thrown away; 0.65 is optimal (Beskos et al. 2013)
TEMPERATURE_OFF = 0.05  # of the temperature: steps have an error of their own, of order h for Euler, h^2 for splittings
SD_OFF = 0.05  # of the sd that the temperature of a coordinate implies: half of LARGEST_BIAS, as it is measured so well
TEMPERATURE_ERRORS = 4.0  # standard errors that a temperature may be off: once in 16,000 runs by chance
LEAST_STEIN_P = 0.002  # p-value of the Stein discrepancy: its bootstrap has 1,999 repetitions, and sees no smaller ones
FALSE_ALARM = 1e-3  # for a whole check by `largest_z`, however many numbers it looks at

# What must have been seen before a check can decide ------------------------------------------------------------------
FEWEST_DRAWS = 8  # of a chain: four in each half
FEWEST_EFFECTIVE = 5  # draws a chain: with fewer, chains have not met and no figure of theirs can be trusted
FEWEST_SEGMENTS = 16  # of all chains, whose scatter tells the error of a coordinate's temperature
FEWEST_INDEPENDENT = 50  # draws: with fewer the Stein discrepancy sees little
BLUNT_BIAS = 3 * LARGEST_BIAS  # where a bias this large may hide in Monte Carlo error, halving the step decides nothing
BLUNT_TEMPERATURE = 0.2  # of the temperature: where TEMPERATURE_ERRORS are more, a thermometer decides nothing
NARROWEST_STARTS = 0.5  # of the draws' sd, for the median number: starts closer together than that are one start

# Signs that the step is too large: they change the advice, never the verdict --------------------------------------
GRADIENT_SPIKE = 100  # times the median: gradients that a step cannot follow
UNEQUAL_WIDTHS = 10  # times: how much the sds of two chains may differ


def slack_for(mean_allowed: float) -> float:
    """By which the limits of R-hat and of effective sizes are wider in a run for which less accuracy was asked: errors
    twice as large take a quarter of the draws, and R-hat is off 1 by their number. Never more than 2."""
    return min(2.0, max(1.0, (mean_allowed / LARGEST_ERROR) ** 2))


def largest_z(count: int) -> float:
    """Standard errors that the largest of `count` right figures exceeds with chance FALSE_ALARM (Bonferroni)."""
    from scipy.stats import norm

    return float(norm.isf(FALSE_ALARM / (2 * max(1, count))))


def largest_t(count: int, degrees: int) -> float:
    """The same where errors are themselves measured, with so many degrees of freedom (Student)."""
    from scipy.stats import t

    return float(t.isf(FALSE_ALARM / (2 * max(1, count)), degrees))


def p_value(z: float, count: int = 1) -> float:
    """How often the largest of `count` right figures is this many standard errors out."""
    from scipy.stats import norm

    return min(1.0, count * 2 * float(norm.sf(abs(z))))
