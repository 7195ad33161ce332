import itertools
import random

import pytest

from appkit.backoff import Backoff


def first(backoff: Backoff, count: int) -> list[float]:
    return list(itertools.islice(backoff.delays(), count))


def test_delays_grow_to_the_maximum_and_stay() -> None:
    assert first(Backoff(1, 2, 10, jitter=0), 6) == [1, 2, 4, 8, 10, 10]


def test_jitter_only_shortens_so_the_maximum_is_one() -> None:
    for delay, base in zip(first(Backoff(1, 2, 8, jitter=0.5), 200), [1, 2, 4, *[8] * 197], strict=True):
        assert base * 0.5 <= delay <= base


def test_a_seed_repeats_the_row_and_every_row_starts_anew() -> None:
    one, other = (Backoff(1, 2, 8, rng=random.Random(7)) for _ in range(2))  # noqa: S311
    assert first(one, 5) == first(other, 5)
    backoff = Backoff(1, 2, 8, jitter=0)
    assert first(backoff, 3) == first(backoff, 3)


def test_no_number_of_attempts_overflows() -> None:
    assert next(itertools.islice(Backoff(1, 10, 60, jitter=0).delays(), 5000, None)) == 60


@pytest.mark.parametrize("numbers", [(0, 2, 1), (1, 0.5, 2), (2, 2, 1)])
def test_senseless_numbers_are_refused(numbers: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="back-off needs"):
        Backoff(*numbers)
