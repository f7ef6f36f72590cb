"""The exceptions a user can act on: the command line shows them as a single line."""


class InputError(ValueError):
    """Bad input: the message says what was got, what was expected and what to do.

    Catch it to tell a user's mistake from a fault of the program; it is a `ValueError`.

    Example:
        >>> import ergodica as eg
        >>> try:
        ...     eg.sghmc(mass=-1.0)
        ... except eg.InputError as error:
        ...     print(error)
        eg.Gaussian: mass must be positive, got -1
    """


class NonFiniteError(ArithmeticError):
    """All chains became non-finite: the message names the chain, the step and what to do.

    `eg.sample` freezes a chain that becomes NaN or infinite, warns, and continues with the others; it raises this only
    when none is left. The usual cause is a step that is too large.

    Example:
        >>> import ergodica as eg
        >>> issubclass(eg.NonFiniteError, ArithmeticError)
        True
    """
