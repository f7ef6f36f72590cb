"""The exceptions a user can act on: the command line shows them as a single line."""


class InputError(ValueError):
    """Bad input: the message says what was got, what was expected and what to do."""


class NonFiniteError(ArithmeticError):
    """A chain is no longer finite; the message names the chain, the step and what to do."""
