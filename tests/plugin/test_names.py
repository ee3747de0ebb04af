"""What a test can import from `pytest_agentmesh`: lazily when it runs, and plainly where types are checked."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import pytest_agentmesh


def test_type_checkers_see_every_name_in_its_place():
    """They run nothing: without these imports each name would be `Any`, and a misspelt one no error."""
    tree = ast.parse(Path(pytest_agentmesh.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {
        alias.asname: node.module.removeprefix("pytest_agentmesh.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name  # only then is it handed on
    }
    assert seen == pytest_agentmesh.PLACES


@pytest.mark.parametrize("name", pytest_agentmesh.PLACES)
def test_every_name_is_what_its_module_calls_so(name):
    """Nothing is promised that is not there."""
    module = import_module(f"pytest_agentmesh.{pytest_agentmesh.PLACES[name]}")
    assert getattr(pytest_agentmesh, name) is getattr(module, name)


def test_any_other_name_is_an_error():
    """It is told as by any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        pytest_agentmesh.Nothing  # noqa: B018 - to ask for it is the test
