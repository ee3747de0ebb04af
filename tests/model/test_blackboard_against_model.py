"""The blackboard against a plain dictionary: random calls and a clock that moves, the same answers at every step."""

import shutil

import pytest
from hypothesis import given, settings, strategies as st

from agentmesh.errors import VersionConflict
from tests.support.boards import open_board, violations
from tests.support.clock import TurnableClock

NAMESPACES = ("", "a", "a/b", "a0", "b")
KEYS = ("k", "k_", "l")
PLACES = st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(KEYS))
TTLS = st.sampled_from((None, None, 1, 2, 5))
CALLS = st.one_of(
    st.tuples(st.just("put"), PLACES, st.integers(0, 9), TTLS, st.sampled_from((None, None, 0, 1, 2, 3))),
    st.tuples(st.just("increment"), PLACES, st.integers(-3, 3), TTLS),
    st.tuples(st.just("delete"), PLACES),
    st.tuples(st.just("advance"), st.integers(1, 3)),
)


class Plain:
    """What the rules say, with nothing clever: values with their ends, and the last version of every name."""

    def __init__(self):
        self.now = 0
        self.values = {}
        self.versions = {}

    def there(self, place):
        """Whether an entry is at a place now."""
        return place in self.values and (self.values[place][1] is None or self.values[place][1] > self.now)

    def put(self, place, value, ttl, if_version):
        """Its new version, or a conflict with the version that is there."""
        version = self.versions[place] if self.there(place) else 0
        if if_version not in (None, version):
            return "conflict", version
        self.values[place] = (value, None if ttl is None else self.now + ttl)
        self.versions[place] = self.versions.get(place, 0) + 1
        return value, self.versions[place]

    def increment(self, place, amount, ttl):
        """The sum and its version."""
        value, end = self.values[place] if self.there(place) else (0, None)
        self.values[place] = (value + amount, end if ttl is None else self.now + ttl)
        self.versions[place] = self.versions.get(place, 0) + 1
        return value + amount, self.versions[place]

    def delete(self, place):
        """Whether there was something."""
        found = self.there(place)
        self.values.pop(place, None)
        return found

    def advance(self, sec):
        """Let time pass."""
        self.now += sec

    def everything(self):
        """All that is there, in order."""
        return [(*place, self.versions[place]) for place in sorted(self.values) if self.there(place)]


class Real:
    """The same on a board."""

    def __init__(self, board, clock):
        self.bb, self.advance = board.blackboard, clock.advance

    def put(self, place, value, ttl, if_version):
        """Its new version, or a conflict with the version that is there."""
        try:
            entry = self.bb.put(*place, value, ttl_sec=ttl, if_version=if_version)
        except VersionConflict as conflict:
            return "conflict", conflict.version
        return entry.value, entry.version

    def increment(self, place, amount, ttl):
        """The sum and its version."""
        entry = self.bb.increment(*place, amount, ttl_sec=ttl)
        return entry.value, entry.version

    def delete(self, place):
        """Whether there was something."""
        return self.bb.delete(*place)

    def everything(self):
        """All that is there, in order, page by page."""
        found, cursor = [], None
        while True:
            page = self.bb.list(limit=2, cursor=cursor)
            found += [(entry.namespace, entry.key, entry.version) for entry in page.entries]
            cursor = page.cursor
            if cursor is None:
                return found


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """An empty board, to be copied."""
    path = tmp_path_factory.mktemp("template") / "board.db"
    open_board(path, TurnableClock()).close()
    return path


@settings(max_examples=60)
@given(st.lists(CALLS, min_size=1, max_size=40))
def test_the_blackboard_does_what_a_dictionary_would(template, tmp_path_factory, calls):
    """Each answer is the same, and after each call the same entries are there."""
    path = tmp_path_factory.mktemp("board") / "board.db"
    shutil.copyfile(template, path)
    clock = TurnableClock()
    with open_board(path, clock) as board:
        plain, real = Plain(), Real(board, clock)
        for name, *arguments in calls:
            expected, found = getattr(plain, name)(*arguments), getattr(real, name)(*arguments)
            if name != "advance":
                assert found == expected
            assert real.everything() == plain.everything()
        for place, (value, _) in plain.values.items():
            entry = board.blackboard.get(*place)
            assert (entry.value if entry else None) == (value if plain.there(place) else None)
        assert violations(board) == {}
