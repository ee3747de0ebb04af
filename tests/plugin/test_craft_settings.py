"""What can be said to a run, and what is said to whoever gets it wrong: one line, and nothing runs."""

import json

import pytest

PLAIN = "def test_board(mesh_board): pass"


def refusal(result):
    """What a run that did not begin says: one line."""
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    [line] = [line for line in [*result.errlines, *result.outlines] if line.startswith("ERROR: ")]
    return line.removeprefix("ERROR: ")


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("agentmesh_seed=one", "agentmesh_seed must be a whole number, not 'one'"),
        ("agentmesh_seed=", "agentmesh_seed must be a whole number, not ''"),
        ("agentmesh_seed=1.5", "agentmesh_seed must be a whole number, not '1.5'"),
        ("agentmesh_storage=disk", "agentmesh_storage must be one of file, memory, not 'disk'"),
        ("agentmesh_transport=ftp", "agentmesh_transport must be one of memory, stdio, http, not 'ftp'"),
        ("agentmesh_deadline=soon", "agentmesh_deadline must be a number of seconds, or 0 for none, not 'soon'"),
        ("agentmesh_deadline=-1", "agentmesh_deadline must be a number of seconds, or 0 for none, not '-1'"),
        ("agentmesh_deadline=nan", "agentmesh_deadline must be a number of seconds, or 0 for none, not 'nan'"),
        ("agentmesh_deadline=inf", "agentmesh_deadline must be a number of seconds, or 0 for none, not 'inf'"),
        ("agentmesh_unchecked=P8 P13", "agentmesh_unchecked: there is no promise 'P13'; they are P1 to P12"),
        ("agentmesh_unchecked=p8", "agentmesh_unchecked: there is no promise 'p8'; they are P1 to P12"),
    ],
)
def test_a_wrong_key_of_the_ini_file_is_named(pytester, said, answer):
    """With what it may be."""
    pytester.makepyfile(PLAIN)
    assert refusal(pytester.runpytest("-o", said)) == answer


@pytest.mark.parametrize(
    "option",
    ["--agentmesh-seed=x", "--agentmesh-storage=x", "--agentmesh-transport=x", "--agentmesh-deadline=x"],
)
def test_a_wrong_option_is_refused_by_the_command_line(pytester, option):
    """Before anything is collected."""
    result = pytester.runpytest(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert any(f"argument {option.removesuffix('=x')}: invalid" in line for line in result.errlines)


def test_a_deadline_in_the_past_is_refused_as_an_option_too(pytester):
    """A number, but none that a clock can keep."""
    assert "agentmesh_deadline must be" in refusal(pytester.runpytest("--agentmesh-deadline=-3"))


@pytest.mark.parametrize(
    ("marker", "answer"),
    [
        ("colour='red'", "knows no 'colour'; it knows seed, storage, transport and unchecked"),
        ("'P8'", "takes keywords only, not 'P8'"),
        ("storage='disk'", "(storage=) must be one of file, memory, not 'disk'"),
        ("transport=[]", "(transport=) must be one of memory, stdio, http, not []"),
        ("unchecked='P8 P0'", "(unchecked=): there is no promise 'P0'; they are P1 to P12"),
        ("unchecked=['P8', 8]", "(unchecked=): there is no promise 8; they are P1 to P12"),
        ("unchecked=8", "(unchecked=) must name promises, as 'P8 P10', not 8"),
        ("seed=None", "(seed=) must be a whole number, not None"),
        ("seed=True", "(seed=) must be a whole number, not True"),
    ],
)
def test_a_wrong_marker_is_named_with_its_test(pytester, marker, answer):
    """Before any test runs, and whether or not this one asks for a board."""
    pytester.makepyfile(f"import pytest\n@pytest.mark.agentmesh({marker})\ndef test_marked(): pass")
    told = refusal(pytester.runpytest())
    name = "@pytest.mark.agentmesh"
    assert told == f"test_a_wrong_marker_is_named_with_its_test.py::test_marked: {name}{answer}".replace(
        f"{name}knows", f"{name} knows"
    ).replace(f"{name}takes", f"{name} takes")


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("colour=1", "mesh_board_factory knows no 'colour'; *"),
        ("storage='disk'", "mesh_board_factory(storage=) must be one of file, memory, not 'disk'"),
        ("unchecked='P13'", "mesh_board_factory(unchecked=): there is no promise 'P13'; they are P1 to P12"),
    ],
)
def test_the_factory_refuses_what_the_marker_refuses(pytester, said, answer):
    """In the same words; the test fails, the run goes on."""
    pytester.makepyfile(f"def test_board(mesh_board_factory):\n    with mesh_board_factory({said}): pass")
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"E * {answer}"])


def test_the_nearest_marker_has_the_last_word(pytester):
    """Function before class before module before ini file; what is unchecked adds up."""
    pytester.makepyfile("""
        import pytest
        from pytest_agentmesh.bench import BENCH
        pytestmark = pytest.mark.agentmesh(seed=1, unchecked="P1")

        @pytest.fixture
        def said(request, mesh_board):
            settings = request.config.stash[BENCH].used(request.node).settings
            return settings.seed, settings.storage, sorted(settings.unchecked)

        @pytest.mark.agentmesh(seed=2, unchecked=["P2"])
        class TestClass:
            def test_class(self, said):
                assert said == (2, "memory", ["P1", "P2", "P7"])

            @pytest.mark.agentmesh(seed=3, storage="file", unchecked=("P3", "P4"))
            def test_function(self, said):
                assert said == (3, "file", ["P1", "P2", "P3", "P4", "P7"])
    """)
    result = pytester.runpytest("-o", "agentmesh_storage=memory", "-o", "agentmesh_unchecked=P7")
    result.assert_outcomes(passed=2)


DRAWN = """
    import json, pathlib, pytest

    @pytest.fixture(autouse=True)
    def _drawn(request, mesh_board):
        task = mesh_board.create_task("Draw an id")
        with pathlib.Path("drawn").open("a") as file:
            file.write(json.dumps([request.node.name, task.id]) + "\\n")

    def test_one(): pass
    def test_two(): pass
    @pytest.mark.agentmesh(seed=0)
    def test_fixed(): pass
    @pytest.mark.agentmesh(seed=0)
    def test_fixed_too(): pass
"""


def drawn(pytester, *arguments):
    """The ids that the tests of a run drew, by test."""
    file = pytester.path / "drawn"
    file.unlink(missing_ok=True)
    pytester.makepyfile(test_drawn=DRAWN)
    assert pytester.runpytest(*arguments).ret == 0
    return dict(json.loads(line) for line in file.read_text().splitlines())


def test_a_test_draws_the_same_in_every_run(pytester):
    """Whatever runs beside it: its seed comes from the run's and from its name, not from its place."""
    everything = drawn(pytester)
    assert len(set(everything.values())) == 3  # two of the tests have the same seed
    assert everything["test_fixed"] == everything["test_fixed_too"]
    assert drawn(pytester, "-k", "two") == {"test_two": everything["test_two"]}
    assert drawn(pytester, "--agentmesh-seed=1", "-k", "two") != {"test_two": everything["test_two"]}
    assert drawn(pytester, "--agentmesh-seed=1", "-k", "fixed")["test_fixed"] == everything["test_fixed"]
