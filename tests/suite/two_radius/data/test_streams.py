import pytest

from mooring.suite.two_radius.data import stream


def draw(*key: object) -> int:
    return int(stream(*key).integers(2**62))  # type: ignore[arg-type]


def test_same_key_same_stream() -> None:
    assert draw(3, "train", 5, 7) == draw(3, "train", 5, 7)


@pytest.mark.parametrize(
    "other", [(2, "train", 5, 7), (3, "validation", 5, 7), (3, "train", 6, 7), (3, "train", 5, 8), (3, "train", 7, 5)]
)
def test_every_part_of_the_key_matters(other: tuple[object, ...]) -> None:
    assert draw(*other) != draw(3, "train", 5, 7)


def test_wide_seeds_do_not_run_into_the_key() -> None:
    assert draw(2**32, "train", 0, 0) != draw(0, "validation", 0, 0)


def test_unknown_split_is_named() -> None:
    with pytest.raises(ValueError, match=r"^two-radius: unknown split 'dev'. Choose one of train, validation, test, "):
        stream(0, "dev")  # type: ignore[arg-type]
