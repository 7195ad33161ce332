"""What must never be seen in a log: the values of secrets, in every form in which text carries them.

Must not know where secrets come from. Settings register what they load; code that reads a secret in another way (a
token file that is read again after rotation) registers the value itself.
"""

import base64
import json
import re
from typing import Any
from urllib.parse import quote, quote_plus

MASK = "[redacted]"

# Masking something shorter would blot out half of every line and give the value away by where the holes are.
MIN_SECRET_LENGTH = 4


class Redactor:
    """A growing set of secrets and the masking of their values in text."""

    def __init__(self) -> None:
        self._forms: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def register(self, value: str) -> None:
        """Mask `value` from now on, also where it is quoted for URLs, JSON or Python, or base64-encoded."""
        if len(value.strip()) < MIN_SECRET_LENGTH:
            return
        forms = {value, value.strip()}
        for text in tuple(forms):
            forms |= {quote(text, safe=""), quote(text), quote_plus(text)}
            forms |= {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
            forms.add(base64.b64encode(text.encode()).decode())
        if forms <= self._forms:
            return
        self._forms |= forms
        # Longest first: a secret that contains another must vanish whole.
        ordered = sorted(self._forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(re.escape(form) for form in ordered))

    def mask(self, text: str) -> str:
        """`text` with every registered secret replaced by `MASK`."""
        return self._pattern.sub(MASK, text) if self._pattern else text

    def mask_value(self, value: Any) -> Any:
        """A JSON-able copy of `value` in which every text, keys included, is masked; other objects become text."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            # A secret may be all digits.
            text = str(value)
            masked = self.mask(text)
            return value if masked == text else masked
        if isinstance(value, dict):
            return {self.mask(str(key)): self.mask_value(item) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.mask_value(item) for item in value]
        return self.mask(str(value))
