"""The one exception for what a user can mend: shown by the command line as a single line, exit code 2."""


class InputError(ValueError):
    """Bad input: the message says what was got, what was expected and what to do."""
