import base64
import json
from urllib.parse import quote

import pytest

from appkit.redaction import MASK, Redactor

SECRET = 'p@ss "wörd"\\/&=\nsecond line'


@pytest.mark.parametrize(
    "carried",
    [
        SECRET,
        quote(SECRET, safe=""),
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        repr(SECRET)[1:-1],
        base64.b64encode(SECRET.encode()).decode(),
    ],
)
def test_every_form_in_which_text_carries_a_secret_is_masked(carried: str) -> None:
    redactor = Redactor()
    redactor.register(SECRET)
    assert redactor.mask(f"before {carried} after") == f"before {MASK} after"


def test_of_two_secrets_the_one_that_contains_the_other_vanishes_whole() -> None:
    redactor = Redactor()
    redactor.register("abcd")
    redactor.register("abcd-efgh")
    assert redactor.mask("abcd-efgh abcd") == f"{MASK} {MASK}"


def test_values_of_any_shape_are_masked_and_the_rest_is_kept() -> None:
    redactor = Redactor()
    redactor.register("123456")
    value = {"a": ["x123456", 123456, 7, None, True], "123456": ("y",), "o": ValueError("123456")}
    expected = {"a": [f"x{MASK}", MASK, 7, None, True], MASK: ["y"], "o": MASK}
    assert redactor.mask_value(value) == expected


def test_nothing_and_very_short_texts_are_not_secrets() -> None:
    redactor = Redactor()
    for text in ("", "  ", "abc"):
        redactor.register(text)
    assert redactor.mask("abc of it all") == "abc of it all"
