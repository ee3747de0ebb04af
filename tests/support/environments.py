"""Environments with other packages than ours, kept from run to run in pytest's cache."""

import os
import shutil
import subprocess
import sys

import pytest

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


def _install(folder, requirements):
    """Make it elsewhere and move it: another process of the tests may do the same, and the first one's is kept."""
    shutil.rmtree(folder, ignore_errors=True)  # it has no Python, or one that is gone
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    subprocess.run([sys.executable, "-m", "venv", "--clear", unfinished], check=True)
    pip = [unfinished / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, *requirements], capture_output=True, text=True, check=False)
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
