"""Whether a value can stand in an HTTP header. The answer is a bool, so that the value itself goes nowhere."""

from pydantic import SecretStr


def is_header_text(value: str | SecretStr) -> bool:
    """Whether a part of the token can go into the Authorization header: printable ASCII without blanks."""
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    return bool(text) and text.isascii() and text.isprintable() and " " not in text
