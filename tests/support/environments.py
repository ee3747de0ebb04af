"""Environments with other packages than ours, kept from run to run in pytest's cache."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = tuple(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
"""What our own distribution needs."""

NEEDS_AN_INDEX = pytest.mark.skipif(
    os.environ.get("AGENTMESH_OFFLINE") == "1", reason="AGENTMESH_OFFLINE=1: nothing is installed"
)


def python_with(request, tmp_path_factory, *requirements):
    """The Python of an environment with the newest of these packages, made if it is not there."""
    cache = getattr(request.config, "cache", None)
    cached = cache.mkdir("sdk") if cache else tmp_path_factory.mktemp("sdk")
    folder = cached / f"{' '.join(requirements)}, Python {sys.version_info.major}.{sys.version_info.minor}"
    if not (folder / "bin" / "python").exists():
        _install(folder, requirements)
    return folder / "bin" / "python"


def built(python, folder):
    """Our wheel, built from these files into that folder by an environment that has hatchling."""
    command(*_pip(python), "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    [wheel] = folder.glob("pytest_agentmesh-*.whl")
    return wheel


def joined(python, wheel, folder):
    """The Python of a new environment in that folder: our wheel, and what is in the environment of the other Python."""
    command(sys.executable, "-m", "venv", "--without-pip", folder)
    pip = (*_pip(python), "--python", folder / "bin" / "python")
    command(*pip, "install", "--no-deps", wheel)
    [packages], [own] = (found.glob("lib/python*/site-packages") for found in (python.parents[1], folder))
    (own / "joined.pth").write_text(f"{packages}\n")
    command(*pip, "check")  # that all of the wheel's requirements are there, and agree with the others'
    return folder / "bin" / "python"


def command(*words, cwd=None):
    """Run a command that must end well, as nobody from this clone; what it says."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    done = subprocess.run(words, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}", pytrace=False)
    return done.stdout


def _pip(python):
    return (python, "-m", "pip", "--quiet", "--disable-pip-version-check")


def _install(folder, requirements):
    """Make it elsewhere and move it: another process of the tests may do the same, and the first one's is kept."""
    shutil.rmtree(folder, ignore_errors=True)  # it has no Python, or one that is gone
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    subprocess.run([sys.executable, "-m", "venv", "--clear", unfinished], check=True)
    done = subprocess.run(
        [*_pip(unfinished / "bin" / "python"), "install", *requirements], capture_output=True, text=True, check=False
    )
    if done.returncode:
        shutil.rmtree(unfinished)
        pytest.fail(
            f"pip could not install {' '.join(requirements)}. It needs the package index that it is configured for; "
            f"AGENTMESH_OFFLINE=1 leaves these tests out.\n{done.stderr}",
            pytrace=False,
        )
    try:
        unfinished.rename(folder)
    except OSError:
        if not folder.exists():
            raise
        shutil.rmtree(unfinished)
