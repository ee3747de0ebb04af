"""What the tests of swarms share: a scene to act on."""

import itertools

import pytest

from tests.support.scene import prepare


@pytest.fixture(scope="session")
def first_scene(tmp_path_factory):
    """The scene that all others are copied from; never opened again."""
    return prepare(tmp_path_factory.mktemp("scene") / "board.db")


@pytest.fixture
def scenes(first_scene, tmp_path):
    """Makes fresh copies of the scene."""
    numbers = itertools.count()
    return lambda: first_scene.copy(tmp_path / f"scene-{next(numbers)}.db")
