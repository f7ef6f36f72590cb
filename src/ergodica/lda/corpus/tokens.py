"""Text to words: lower case, a hyphen or white space parts words, every other character but a-z is dropped."""

SPACES = b"- \t\n\v\f\r"
LETTERS = b"abcdefghijklmnopqrstuvwxyz"
_TABLE = bytes.maketrans(LETTERS.upper() + SPACES, LETTERS + b" " * len(SPACES))
_DROPPED = bytes(code for code in range(128) if code not in LETTERS + LETTERS.upper() + SPACES)


def words(text: str) -> list[bytes]:
    """The words of a text, in order.

    As Hoffman, Blei and Bach's code for online LDA (2010) does it, with white space of any kind as a space. Characters
    are dropped, not replaced by a space: "don't" is "dont", and letters other than a-z leave a gap in their word.

    >>> words("The well-known Poincaré map, 2nd ed.")
    [b'the', b'well', b'known', b'poincar', b'map', b'nd', b'ed']
    """
    return text.encode("ascii", "ignore").translate(_TABLE, _DROPPED).split()
