"""Shapes of graphs: the edges that their names promise, whatever the size."""

import pytest

from pytest_agentmesh.fake.shapes import SHAPES, chain, depths, diamond, fan_in, fan_out, layered, of_size


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        (chain(1), [()]),
        (chain(4), [(), (0,), (1,), (2,)]),
        (diamond(1), [(), (0,), (1,)]),
        (diamond(3), [(), (0,), (0,), (0,), (1, 2, 3)]),
        (fan_out(2), [(), (0,), (0,)]),
        (fan_in(2), [(), (), (0, 1)]),
        (layered(1, 3), [(), (), ()]),
        (layered(3, 1), [(), (0,), (1,)]),
        (layered(2, 2), [(), (), (0, 1), (0, 1)]),
        (layered(2, 4), [(), (), (), (), (0, 1), (1, 2), (2, 3), (0, 3)]),
    ],
)
def test_a_shape_has_the_edges_that_its_name_says(edges, expected):
    """For each task the places of those that it waits for."""
    assert edges == expected


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 10, 100, 1_000])
def test_a_shape_has_the_size_that_is_asked_for_and_parents_first(shape, size):
    """So it can be cut to any size, and never holds a cycle."""
    edges = of_size(shape, size)
    assert len(edges) == size
    assert all(above < place for place, all_above in enumerate(edges) for above in all_above)
    assert all(len(set(above)) == len(above) for above in edges)


@pytest.mark.parametrize(
    ("shape", "roots", "deepest"),
    [("chain", 1, 9), ("diamond", 1, 2), ("layered", 3, 3), ("fan_out", 1, 1), ("fan_in", 9, 1)],
)
def test_a_shape_keeps_its_form_when_it_is_made_to_measure(shape, roots, deepest):
    """Ten tasks: how many of them wait for nothing, and how deep the last one stands."""
    found = depths(of_size(shape, 10))
    assert (found.count(0), max(found)) == (roots, deepest)


@pytest.mark.parametrize(
    "refused",
    [
        lambda: chain(0),
        lambda: diamond(0),
        lambda: layered(0, 3),
        lambda: layered(3, 0),
        lambda: fan_out(-1),
        lambda: fan_in(0),
        lambda: of_size("chain", 0),
        lambda: of_size("star", 3),
    ],
)
def test_a_size_or_shape_that_there_is_not_is_refused(refused):
    """A graph of nothing would make a test that asserts nothing."""
    with pytest.raises(ValueError, match=r"at least 1|shapes are chain"):
        refused()
