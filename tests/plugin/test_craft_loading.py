"""The plugin in a run of pytest: how it comes in, what it says, how it stays out."""

import subprocess
import sys

import pytest

from pytest_agentmesh import fixtures

FIVE_LINES = """
    def test_a_lost_worker_is_replaced(mesh_board, mesh_clock):
        mesh_board.create_task("Write the docs", id="docs")
        mesh_board.claim_task("ada")
        mesh_clock.advance("1h")
        assert mesh_board.claim_task("bob").task.id == "docs"
"""
FIXTURES = sorted(name for name in vars(fixtures) if name.startswith("mesh_"))
NO_FIXTURE = "*fixture 'mesh_board' not found*"


@pytest.fixture
def project(pytester):
    """A project with one test of five lines, in the strictest mode, where a warning is an error."""
    pytester.makepyfile(FIVE_LINES)
    pytester.makeini("[pytest]\naddopts = -W error --strict-markers --strict-config\n")
    return pytester


def test_installed_is_enough(project):
    """No option, no conftest: the entry point brings the fixtures. A lease of an hour ends without a wait."""
    result = project.runpytest()
    result.assert_outcomes(passed=1)
    assert result.duration < 20


@pytest.mark.parametrize(
    ("conftest", "arguments"),
    [
        ('pytest_plugins = ["pytest_agentmesh.plugin"]', ()),
        ('pytest_plugins = ["pytest_agentmesh"]', ()),
        ('pytest_plugins = ["pytest_agentmesh.plugin", "pytest_agentmesh.fixtures", "agentmesh"]', ()),
        ("", ("-p", "pytest_agentmesh.plugin")),
        ("", ("-p", "pytest_agentmesh.plugin", "-p", "agentmesh", "-p", "pytest_agentmesh")),
    ],
)
def test_whoever_names_the_plugin_himself_has_it_once(project, conftest, arguments):
    """Its options are not added twice, its hooks do not run twice."""
    project.makeconftest(conftest)
    result = project.runpytest(*arguments)
    result.assert_outcomes(passed=1)
    assert result.stdout.str().count("agentmesh: seed=") == 1
    result.stdout.fnmatch_lines(["1 board, all promises kept"])


@pytest.mark.parametrize("name", ["agentmesh", "pytest_agentmesh.plugin"])
def test_it_can_be_left_out(project, name):
    """The suite is collected, and a test that asks for a board is told in pytest's own words that there is none."""
    project.makepyfile(test_other="def test_plain(): pass")
    result = project.runpytest("-p", f"no:{name}", "-o", "addopts=")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([NO_FIXTURE])
    result.stdout.no_fnmatch_line("agentmesh: seed=*")


@pytest.mark.parametrize("names", [("agentmesh",), ("pytest_agentmesh.plugin",)])
def test_without_autoloading_it_comes_when_it_is_named(project, monkeypatch, names):
    """`PYTEST_DISABLE_PLUGIN_AUTOLOAD=1` is how careful projects start; there is no timeout plugin then, either."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    project.runpytest_subprocess().stdout.fnmatch_lines([NO_FIXTURE])
    project.runpytest_subprocess(*(word for name in names for word in ("-p", name))).assert_outcomes(passed=1)


def test_no_hook_of_it_stands_in_the_way_of_a_run_without_a_board(pytester):
    """It is installed beside projects that never use it: they see a line in the header and nothing else."""
    pytester.makepyfile("def test_plain(): pass")
    result = pytester.runpytest("-W", "error")
    result.assert_outcomes(passed=1)
    assert "== agentmesh ==" not in result.stdout.str()


def test_the_marker_is_listed(pytester):
    """With what it takes."""
    pytester.runpytest("--markers").stdout.fnmatch_lines(
        ["@pytest.mark.agentmesh(seed=, storage=, transport=, unchecked=): *"]
    )


def test_the_fixtures_are_listed_with_what_they_give(pytester):
    """Each with a sentence; what is ours alone is not shown."""
    lines = pytester.runpytest("--fixtures").outlines
    for name in FIXTURES:
        [at] = [number for number, line in enumerate(lines) if line.startswith((f"{name} ", f"{name} --"))]
        assert lines[at + 1].strip().endswith((".", ":"))
    assert not [line for line in lines if line.startswith("_mesh")]


def test_the_options_and_keys_are_explained(pytester):
    """In a group of their own."""
    text = pytester.runpytest("--help").stdout.str()
    assert "boards and swarms of agents (AgentMesh):" in text
    for word in ("--agentmesh-seed=N", "--agentmesh-keep", "--agentmesh-storage=", "--agentmesh-deadline=SEC"):
        assert word in text
    for key in ("agentmesh_seed", "agentmesh_storage", "agentmesh_deadline", "agentmesh_unchecked"):
        assert f"  {key} (" in text


@pytest.mark.parametrize(
    ("arguments", "header"),
    [
        ((), "agentmesh: seed=0 storage=file transport=memory swarms=first come, first served"),
        (
            ("--agentmesh", "--agentmesh-seed=7", "--agentmesh-storage=memory"),
            "agentmesh: seed=7 storage=memory transport=memory swarms=drawn from the seed",
        ),
        (
            ("-o", "agentmesh_seed=8", "-o", "agentmesh_transport=stdio"),
            "agentmesh: seed=8 storage=file transport=stdio swarms=first come, first served",
        ),
        (("-o", "agentmesh_seed=8", "--agentmesh-seed=9"), "agentmesh: seed=9 *"),
    ],
)
def test_the_header_says_how_to_have_the_same_run_again(project, arguments, header):
    """One line; an option wins over the ini file."""
    project.runpytest(*arguments).stdout.fnmatch_lines([header])


def test_quiet_is_quiet(project):
    """With `-q` neither a header nor a summary, as long as nothing is broken."""
    assert "agentmesh" not in project.runpytest("-q").stdout.str()


@pytest.mark.parametrize("arguments", [("--collect-only",), ("-v",), ("-vv",), ("--setup-plan",), ("-x", "--tb=short")])
def test_the_usual_options_work(project, arguments):
    """Nothing is warned of, nothing fails."""
    assert project.runpytest(*arguments).ret == 0


@pytest.mark.parametrize("module", ["agentmesh", "pytest_agentmesh"])
def test_a_script_may_import_it_before_it_starts_pytest(project, module):
    """H11: to pytest both are parts of a plugin, and it warns of a plugin that it cannot rewrite."""
    script = f"import sys, pytest, {module}\nsys.exit(pytest.main(['-p', 'agentmesh', '-p', '{module}']))"
    result = project.run(sys.executable, "-c", script)
    result.assert_outcomes(passed=1)


def test_collecting_makes_no_board(project):
    """Nor does it import the product: an editor collects with every key."""
    project.makeconftest(
        "import sys\ndef pytest_collection_finish(): print('imported:', 'agentmesh' in sys.modules, end='.')"
    )
    result = project.runpytest_subprocess("--collect-only", "-q", "-s")
    result.stdout.fnmatch_lines(["imported: False.*"])
    result.stdout.no_fnmatch_line("*promises*")


def test_importing_as_a_library_works(project):
    """`--import-mode=importlib`, as here, or the older ways."""
    for mode in ("importlib", "append", "prepend"):
        project.runpytest(f"--import-mode={mode}").assert_outcomes(passed=1)


def test_an_installed_plugin_imports_nothing_but_pytest_and_the_standard_library():
    """H10: every start of pytest would pay for it, in every project of that environment."""
    code = (
        "import sys, pytest, _pytest.config; _pytest.config.get_config(); before = set(sys.modules)\n"
        "import pytest_agentmesh.entry, pytest_agentmesh.plugin, pytest_agentmesh.fixtures\n"
        "new = {name.partition('.')[0] for name in sys.modules.keys() - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['pytest_agentmesh']"
