"""The house rules that no linter knows; CONTRIBUTING.md explains them."""

import ast
import io
import re
import subprocess
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MOST_LINES_OF_A_BODY = 70
MOST_LINES_OF_A_FILE = 500

VAGUE_NAME = re.compile(r"(utils?|common|helpers?|managers?)")
SQL_TEXT = re.compile(r"\b(SELECT\b.+\bFROM|INSERT\b.+\bINTO|UPDATE\b.+\bSET|DELETE\s+FROM)\b", re.DOTALL)
EXCEPTION_TO_A_RULE = re.compile(
    r"type:\s*ignore(?P<types>\[[\w, -]+\])?|\bnoqa\b(?P<lint>:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*)?"
)
WAIT_BY_THE_WALL_CLOCK = re.compile(r"(?<!mesh_clock\.)\bsleep\(")
FOREIGN_PLACE = re.compile(r"(?<![\w.-])/(work|root|home)/|\b(pypi\.org|pythonhosted\.org|npmjs\.(org|com))\b")


def python_files(*folders: str) -> Iterator[Path]:
    """All Python files in these folders of the repository."""
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def committed_files() -> Iterator[Path]:
    """All files that are, or are about to be, in the repository."""
    listing = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    command = ["git", "-c", "safe.directory=*", *listing]
    try:
        names = subprocess.check_output(command, cwd=ROOT, text=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git and a checkout")
    yield from (ROOT / name for name in names.split("\0") if (ROOT / name).is_file())


def place(path: Path, line: int = 1) -> str:
    """Where the offence is, as an editor opens it."""
    return f"{path.relative_to(ROOT)}:{line}"


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions and methods of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body, its docstring aside."""
    first = 1 if ast.get_docstring(function) and len(function.body) > 1 else 0
    return function.end_lineno - function.body[first].lineno + 1


def docstrings(tree: ast.AST) -> set[ast.AST]:
    """The strings that stand alone as statements."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a file and their lines, f-strings in one piece, docstrings left out."""
    tree = ast.parse(path.read_text())
    for node in set(ast.walk(tree)) - docstrings(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            fixed = [part.value if isinstance(part, ast.Constant) else "?" for part in node.values]
            yield node.lineno, "".join(fixed)


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """The comments of a file and their lines."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def unexplained(comment: str) -> bool:
    """Whether a comment silences a check without saying which one, or why."""
    silenced = list(EXCEPTION_TO_A_RULE.finditer(comment))
    coded = all(match["types"] or match["lint"] for match in silenced)
    reason = re.search(r"[a-z]{3}", EXCEPTION_TO_A_RULE.sub("", comment))
    return bool(silenced) and not (coded and reason)


def matching_lines(path: Path, pattern: re.Pattern[str]) -> Iterator[int]:
    """The numbers of the lines in which the pattern occurs."""
    for number, line in enumerate(path.read_text(errors="ignore").splitlines(), start=1):
        if pattern.search(line):
            yield number


def test_a_function_fits_on_a_screen():
    """A body has at most 70 lines; aim at 40."""
    assert [
        f"{place(path, function.lineno)} {function.name}"
        for path in python_files("src")
        for function in functions(path)
        if body_lines(function) > MOST_LINES_OF_A_BODY
    ] == []


def test_a_file_is_read_in_one_sitting():
    """A source file has at most 500 lines; aim at 300."""
    assert [
        place(path)
        for path in [*python_files("src"), *(ROOT / "src").rglob("*.sql")]
        if len(path.read_text().splitlines()) > MOST_LINES_OF_A_FILE
    ] == []


def test_a_test_says_what_it_promises():
    """Every test function has a docstring."""
    assert [
        f"{place(path, function.lineno)} {function.name}"
        for path in python_files("tests")
        for function in functions(path)
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ] == []


def test_a_name_says_what_is_inside():
    """No file or folder is named after nothing in particular."""
    assert [
        place(path)
        for path in python_files("src", "tests", "benchmarks")
        if any(VAGUE_NAME.fullmatch(part) for part in path.relative_to(ROOT).with_suffix("").parts)
    ] == []


def test_no_test_waits_by_the_wall_clock():
    """Tests turn a clock or wait for a signal, so they are fast and never flaky."""
    assert [
        place(path, line) for path in python_files("tests") for line in matching_lines(path, WAIT_BY_THE_WALL_CLOCK)
    ] == []


def test_sql_lives_in_sql_files():
    """No Python string in src holds a statement on rows."""
    assert [
        place(path, line) for path in python_files("src") for line, text in texts(path) if SQL_TEXT.search(text)
    ] == []


def test_an_exception_to_a_rule_is_explained():
    """Whoever silences a check names it and says why."""
    assert [
        place(path, line)
        for path in python_files("src", "tests", "benchmarks")
        for line, comment in comments(path)
        if unexplained(comment)
    ] == []


def test_no_file_knows_the_machine_it_was_written_on():
    """No folder of a developer's machine and no package registry is named in the repository."""
    assert [place(path, line) for path in committed_files() for line in matching_lines(path, FOREIGN_PLACE)] == []


def test_a_changelog_fragment_has_a_known_type():
    """Fragments are named `issue.type.md`; pyproject.toml lists the types."""
    towncrier = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    types = "|".join(kind["directory"] for kind in towncrier["type"])
    assert [
        place(path)
        for path in (ROOT / towncrier["directory"]).iterdir()
        if path.name != "README.md" and not re.fullmatch(rf"(\d+|\+[\w-]+)\.({types})(\.\d+)?\.md", path.name)
    ] == []


@pytest.mark.parametrize(
    ("comment", "is_unexplained"),
    [
        ("# an ordinary comment", False),
        ("# type: ignore[misc]  # the stub is wrong", False),
        ("# noqa: S603 - the command is our own", False),
        ("# noqa: S603, S607 - the command is our own", False),
        ("# type: ignore[misc]", True),
        ("# noqa: S603", True),
        ("# noqa", True),
        ("# type: ignore[misc]  # noqa - both", True),
    ],
)
def test_an_explanation_has_a_code_and_words(comment, is_unexplained):
    """The rule above bites on a missing code and on a missing reason."""
    assert unexplained(comment) is is_unexplained
