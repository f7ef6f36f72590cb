"""What was left out of a corpus and why: counts that can be saved, and lines that a person can read."""

from collections import Counter

OMISSION_REASONS = {
    "cut_off": "files cut off or damaged (what came before is kept)",
    "trailing": "files with other bytes after the end of the compressed data, which were left out",
    "unreadable": "files left out, with no text that can be read",
    "bad_line": "lines left out, not a JSON object with the field of the text",
    "bad_row": "rows left out, without the column of the text",
    "bad_text": "texts left out, not strings",
    "no_text": "texts left out, missing (None or NaN)",
    "too_long": "documents left out, longer than the limit",
    "cut": "documents longer than the limit, of which only the beginning is read",
    "not_utf8": "places that are not UTF-8, read as U+FFFD",
    "namespace": "pages left out, not in the article namespace",
    "redirect": "pages left out, redirects",
    "empty": "documents left out, empty",
    "short": "documents left out, shorter than two words of the vocabulary",
    "unspaced": "documents left out, of a script without spaces between words: give a tokenizer",
    "copies": "documents that are exact copies of others, which are kept",
}


class Tally:
    """Counts by reason, each with the first place where it happened."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.where: dict[str, str] = {}

    def add(self, reason: str, where: str = "", times: int = 1) -> None:
        """Count one of OMISSION_REASONS, or "kept": a document that is used."""
        self.counts[reason] += times
        if where:
            self.where.setdefault(reason, where)

    def notes(self) -> list[str]:
        """One line for every reason that was met."""
        lines = []
        for reason, meaning in OMISSION_REASONS.items():
            if self.counts[reason]:
                first = f"; first: {self.where[reason]}" if reason in self.where else ""
                lines.append(f"{meaning}: {self.counts[reason]:,}{first}")
        return lines

    def save(self) -> dict[str, int | str]:
        """Plain numbers and strings, for a cursor."""
        numbers = {f"count_{reason}": times for reason, times in self.counts.items()}
        return {**numbers, **{f"where_{reason}": place for reason, place in self.where.items()}}

    @classmethod
    def load(cls, saved: dict[str, int | str]) -> "Tally":
        """The tally that `save` wrote; other entries are skipped."""
        tally = cls()
        for key, value in saved.items():
            kind, _, reason = key.partition("_")
            if kind == "count":
                tally.counts[reason] = int(value)
            elif kind == "where":
                tally.where[reason] = str(value)
        return tally

    def copy(self) -> "Tally":
        return Tally.load(self.save())

    def merge(self, other: "Tally") -> None:
        """Add what another one counted after this one."""
        if other.counts:
            self.counts.update(other.counts)
            self.where = {**other.where, **self.where}

    def taken(self) -> "Tally":
        """What was counted so far, which this one then forgets."""
        other = Tally()
        if self.counts:
            other.counts, other.where = self.counts, self.where
            self.counts, self.where = Counter(), {}
        return other
