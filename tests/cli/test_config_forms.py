"""A client's file is edited as text: our entry comes and goes, and every other byte stays."""

import json
import tomllib

import pytest
from hypothesis import example, given, settings, strategies as st

from agentmesh.cli.json_form import JsonForm
from agentmesh.cli.server_entry import Unfit, is_ours
from agentmesh.cli.toml_form import TomlForm

OURS = {"command": "/usr/bin/python", "args": ["-m", "agentmesh.cli", "run", "--board", "/tmp/ä/board.db"]}
OTHER = {"command": "C:\\py\\python.exe", "args": ["-m", "agentmesh.cli", "run", "--agent", 'an"n']}
JSON, JSONC, TOML = JsonForm(), JsonForm(comments=True), TomlForm()
IN_JSON, IN_TOML = ("mcpServers", "agentmesh"), ("mcp_servers", "agentmesh")

BLANKS = st.text(" \t\r\n", max_size=3)
REMARKS = st.lists(st.sampled_from(["", " ", "\n  ", '// a "b { ,\n', '/* } " */', "/**/", "\r\n"]), max_size=3).map(
    "".join
)
NAMES = st.text(max_size=8).filter(lambda name: name not in IN_JSON)
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=12)
).map(json.dumps)


@st.composite
def braces(draw, inside, white, servers=None):
    """An object in any layout that JSON allows; if there is a strategy for servers, it may have some."""
    names = draw(st.lists(NAMES, max_size=4, unique=True))
    members = [[json.dumps(name, ensure_ascii=draw(st.booleans())), draw(inside)] for name in names]
    if servers is not None and draw(st.booleans()):
        members.insert(draw(st.integers(0, len(members))), ['"mcpServers"', draw(servers)])
    laid_out = ["".join(draw(white) + part for part in (name, ":", value, "")) for name, value in members]
    return f"{{{','.join(laid_out) or draw(white)}}}"


def values(white):
    """Any JSON value, in any layout."""
    return st.recursive(
        LEAVES,
        lambda inside: braces(inside, white) | st.lists(inside, max_size=3).map(lambda items: f"[{','.join(items)}]"),
        max_leaves=8,
    )


def documents(white):
    """A client's file: an object, with or without servers in it."""
    inside = values(white)
    return st.tuples(white, braces(inside, white, braces(inside, white)), white).map("".join)


def comes_and_goes(form, where, text, load):
    """All that is promised of a form, on one text."""
    added = form.put(text, where, OURS)
    assert form.read(added, where) == OURS
    assert form.put(added, where, OURS) == added
    assert form.take(added, where) == text
    changed = form.put(added, where, OTHER)
    assert form.read(changed, where) == OTHER
    assert form.put(changed, where, OURS) == added
    assert form.take(changed, where) == text
    others, now = load(text), load(added)
    servers = now[where[0]]
    assert servers.pop(where[1]) == OURS
    assert now == ({where[0]: {}} | others)
    return added


@given(documents(BLANKS))
@example("{}")
@example("{ }\n")
@example('{"a":1}')
@example('\n  {\r\n\t"a": 1\r\n  }')
@example('{"mcpServers":{}}')
@example('{"mcpServers": {"a": {}}}')
@example('{\n  "mcpServers": {\n  },\n  "a": 1\n}\n')
def test_our_entry_comes_and_goes_in_json(text):
    """Whatever the layout: the text is afterwards what it was before."""
    comes_and_goes(JSON, IN_JSON, text, json.loads)


@settings(max_examples=60)
@given(documents(REMARKS))
@example('{"a": 1 // last\n}')
@example('{\n  "a": 1 // last\n}')
@example('{\n  "a": 1, "mcpServers": {\n    // none\n  } /* end */\n}')
def test_our_entry_comes_and_goes_among_comments(text):
    """Comments stay, and nothing lands in one."""
    comes_and_goes(JSONC, IN_JSON, text, lambda it: json.loads(JSONC._shadow(it)))


VALUES = st.sampled_from(
    [
        "1",
        '"[mcp_servers.agentmesh]"',
        '"""\n[mcp_servers.agentmesh]\nargs = 1\n"""""',
        "'''\n[x]\n''' # [y]",
        '[ # [\n  "a", "]",\n  [1, 2],\n]',
        '{ a = "}", b = [1] }',
        "1979-05-27T07:32:00Z",
        "nan",
        "'C:\\dir'",
    ]
)
BODIES = st.lists(VALUES, max_size=3).map(lambda found: [f"k{n} = {value}" for n, value in enumerate(found)])
HEADERS = st.lists(
    st.sampled_from(
        [
            "[t]",
            "[[list]]",
            "[ mcp_servers . other ]  # theirs",
            "[mcp_servers.other.env]",
            '[mcp_servers."agentmesh.env"]',
            "[x.mcp_servers.agentmesh]",
        ]
    ),
    unique=True,
)
GAPS = st.sampled_from(["", "\n", "# [mcp_servers.agentmesh]\n", "\n# c\n\n", "  \n"])


@st.composite
def toml_documents(draw):
    """A client's file: tables, and what could be taken for one."""
    parts = [draw(GAPS), *draw(BODIES)]
    for header in draw(HEADERS):
        parts += [draw(GAPS) + header, *draw(BODIES)]
    text = "\n".join(parts) + draw(st.sampled_from(["", "\n", "\n\n", "\n# end", "\n  "]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@given(toml_documents())
@example("")
@example("\n")
@example('a = 1\r\nb = """\n"""\n')
@example("mcp_servers.other.command = 'x'\n")
@example("[mcp_servers]\n")
def test_our_entry_comes_and_goes_in_toml(text):
    """Whatever stands in strings, comments and lists: the text is afterwards what it was before."""
    added = comes_and_goes(TOML, IN_TOML, text, lambda it: tomllib.loads(it, parse_float=str))
    assert added.startswith(text)


@pytest.mark.parametrize("form", [JSON, TOML])
def test_what_the_user_added_to_our_entry_stays(form):
    """Only the command and its arguments are ours."""
    where, added = (IN_JSON, '"disabled": true,') if form is JSON else (IN_TOML, "startup_timeout_sec = 20 # slow\n")
    marker = '"command"' if form is JSON else "command ="
    text = form.put(form.fresh(where[0]), where, OURS).replace(marker, added + marker)

    changed = form.put(text, where, OTHER)
    assert changed != text
    assert added in changed
    assert form.read(changed, where) == form.read(text, where) | OTHER


def test_tables_below_ours_go_with_it():
    """Also when they stand elsewhere; comments before the next table stay."""
    text = "\n[mcp_servers.agentmesh.env]\nA = '1'\n\n# mine\n[t]\n"
    added = TOML.put("", IN_TOML, OURS) + text

    assert TOML.take(added, IN_TOML) == "\n# mine\n[t]\n"


def test_an_entry_between_others_goes_alone():
    """The neighbours keep their layout."""
    text = JSON.put('{"mcpServers": {}}', IN_JSON, OURS)
    text = JSON.put(text, ("mcpServers", "b"), OURS)

    assert JSON.take(text, IN_JSON) == JSON.put('{"mcpServers": {}}', ("mcpServers", "b"), OURS)


def test_an_object_made_for_us_goes_with_the_last_of_our_entries():
    """Not before."""
    second = ("mcpServers", "b")
    one = JSON.put('{"a": 1}', second, OURS)
    two = JSON.put(one, IN_JSON, OURS)

    assert JSON.take(two, IN_JSON) == one
    assert JSON.take(JSON.take(two, second), IN_JSON) == '{"a": 1}'


def test_a_comment_stays_with_its_member():
    """Our entry stands behind it, on a line of its own."""
    assert JSONC.put('{\n  "a": 1 // about a\n}', IN_JSON, OURS).startswith('{\n  "a": 1, // about a\n  "mcpServers"')


def test_an_entry_looks_as_its_file_does():
    """In step with the file's own indentation and line ends, or on one line in a file of one line."""
    deep = JSON.put('{\r\n\t"mcpServers": {\r\n\t\t"a": {}\r\n\t}\r\n}', IN_JSON, OURS)
    assert '\t\t"a": {},\r\n\t\t"agentmesh": {\r\n\t\t\t"command": "/usr/bin/python",\r\n' in deep
    assert "\n" not in JSON.put('{"a": 1}', IN_JSON, OURS)
    assert JSON.put("{}", IN_JSON, OURS).startswith('{\n  "mcpServers": {"agentmesh": {\n    "command"')


@pytest.mark.parametrize(
    ("form", "text", "problem"),
    [
        (JSON, '{\n  "a": 1,\n}', "line 3, column 1: "),
        (JSON, '{\n  "a": [1 2]\n}', "line 2, column 11: "),
        (JSON, "{} {}", "line 1, column 4: Extra data"),
        (JSON, "", "line 1, column 1: "),
        (JSON, '{"a": 1 // c\n}', "line 1, column 9: "),
        (JSON, '{"a": NaN}', "NaN is no JSON value"),
        (JSON, '{"a": "\t"}', "line 1, column 8: "),
        (JSON, "[]", "line 1, column 1: this is no object"),
        (JSON, '\n "x"', "line 2, column 2: this is no object"),
        (JSON, '{"a": 1,\n "a": 2}', "line 2, column 2: a name stands twice"),
        (JSON, '{"x": [{"a": 1,\n  "\\u0061": 2}]}', "line 2, column 3: a name stands twice"),
        (JSON, '{"mcpServers":\n  null}', "line 2, column 3: mcpServers is no object"),
        (JSON, "[" * 100_000, "nested too deeply"),
        (JSONC, '{"a": /* 1}', "line 1, column 7: "),
        (TOML, "a = 1\nb = \n", "line 2, column 5: this is not TOML"),
        (TOML, "a = 1\na = 2\n", "line 2, column 6: this is not TOML"),
        (TOML, '"', "this is not TOML"),
        (TOML, "mcp_servers = 1\n", "mcp_servers is no table"),
        (TOML, "mcp_servers = {}\n", "edited by hand only"),
    ],
)
def test_what_is_broken_is_refused_with_its_place(form, text, problem):
    """By line and column, as far as there is one."""
    with pytest.raises(Unfit) as caught:
        form.put(text, IN_TOML if form is TOML else IN_JSON, OURS)
    assert problem in str(caught.value)


@pytest.mark.parametrize("edit", ["put", "take"])
def test_an_entry_in_a_form_of_its_own_is_edited_by_hand_only(edit):
    """It is valid TOML, but not the table that we write."""
    text = 'mcp_servers.agentmesh = {command = "agentmesh", args = ["run"]}\n'

    with pytest.raises(Unfit, match="by hand only"):
        getattr(TOML, edit)(text, IN_TOML, *([OURS] if edit == "put" else []))


@pytest.mark.parametrize(
    ("entry", "ours"),
    [
        (OURS, True),
        (OTHER, True),
        ({"command": "agentmesh", "args": ["run"]}, True),
        ({"command": "C:\\bin\\agentmesh.exe", "args": ["run"]}, True),
        ({"command": "uvx", "args": ["--from", "pytest-agentmesh", "agentmesh", "run"]}, True),
        ({"command": "npx", "args": ["agentmesh-cloud"]}, False),
        ({"command": "agentmesh"}, False),
        ({"command": "agentmesh", "args": ["serve"]}, False),
        ({"url": "http://localhost"}, False),
        (None, False),
        ([], False),
    ],
)
def test_an_entry_of_ours_is_known_by_what_it_starts(entry, ours):
    """Not by its name: another server may be called as ours is."""
    assert is_ours(entry) is ours
