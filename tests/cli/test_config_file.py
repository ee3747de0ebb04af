"""A client's file is replaced in one step, keeps what it is, and its old bytes are kept beside it."""

import os
import stat
from pathlib import Path

import pytest

from agentmesh.cli.config_file import ConfigFile
from agentmesh.errors import ConfigurationRefused
from tests.support.small_disk import small_disk

NOW_US = 1_767_225_600_000_000


@pytest.fixture
def folder(in_an_empty_folder):
    """Where the file is, alone."""
    return in_an_empty_folder


def rights(path):
    """A file's mode bits."""
    return stat.S_IMODE(path.stat().st_mode)


def test_the_old_bytes_are_kept_for_their_owner_only(folder):
    """Under the file's own name with the instant; the file keeps its own rights."""
    file = folder / "config.toml"
    file.write_bytes(b"a = 1\r\n")
    file.chmod(0o644)
    copy = ConfigFile.read(file).write("b = 2\r\n", NOW_US)

    assert copy == folder / "config.toml.bak-20260101T000000.000000Z"
    assert (copy.read_bytes(), rights(copy)) == (b"a = 1\r\n", 0o600)
    assert (file.read_bytes(), rights(file)) == (b"b = 2\r\n", 0o644)
    assert sorted(folder.iterdir()) == [file, copy]


def test_a_copy_is_never_written_over(folder):
    """Nor is the file changed without one."""
    file = folder / "c.json"
    file.write_text("old")
    (folder / "c.json.bak-20260101T000000.000000Z").write_text("precious")

    with pytest.raises(FileExistsError):
        ConfigFile.read(file).write("new", NOW_US)
    assert file.read_text() == "old"
    assert len(list(folder.iterdir())) == 2


def test_a_new_file_is_private_and_so_is_the_folder_made_for_it(folder):
    """There is nothing to copy aside."""
    file = folder / "a" / "b" / "c.json"

    assert ConfigFile.read(file).write("{}", NOW_US) is None
    assert (rights(file), rights(file.parent)) == (0o600, 0o700)


def test_a_link_stays_and_its_target_is_edited(folder):
    """As people keep their dotfiles; the copy lies beside the link, not in their repository."""
    (folder / "dotfiles").mkdir()
    target, link = folder / "dotfiles" / "c.json", folder / "c.json"
    target.write_text("old")
    link.symlink_to("dotfiles/c.json")
    copy = ConfigFile.read(link).write("new", NOW_US)

    assert (link.is_symlink(), target.read_text(), copy.parent) == (True, "new", folder)
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_file_keeps_its_owner(folder):
    """Root edits a user's file, and it stays the user's."""
    file = folder / "c.json"
    file.write_text("old")
    os.chown(file, 4242, 4343)
    ConfigFile.read(file).write("new", NOW_US)

    assert (file.stat().st_uid, file.stat().st_gid) == (4242, 4343)


def test_the_mark_at_the_beginning_stays(folder):
    """It is no part of the text, and comes back with it."""
    file = folder / "c.json"
    file.write_bytes(b"\xef\xbb\xbf{}")
    read = ConfigFile.read(file)
    read.write("{ }", NOW_US)

    assert (read.text, file.read_bytes()) == ("{}", b"\xef\xbb\xbf{ }")


def test_what_the_client_wrote_meanwhile_is_not_lost(folder):
    """Nothing is written, and nothing left behind."""
    file = folder / "c.json"
    file.write_text("old")
    read = ConfigFile.read(file)
    file.write_text("newer")

    with pytest.raises(ConfigurationRefused, match="somebody else"):
        read.write("ours", NOW_US)
    assert [(one, one.read_text()) for one in folder.iterdir()] == [(file, "newer")]


def test_a_failure_leaves_the_old_file(folder, monkeypatch):
    """And no half-written one beside it."""
    file = folder / "c.json"
    file.write_text("old")
    monkeypatch.setattr(os, "fsync", lambda _: os.close(-1))

    with pytest.raises(OSError, match="Bad file descriptor"):
        ConfigFile.read(file).write("new", NOW_US)
    assert [(one, one.read_text()) for one in folder.iterdir()] == [(file, "old")]


def test_only_plain_text_files_are_read(folder):
    """Not a folder, not a pipe that nobody writes to, not another encoding."""
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "utf-16").write_bytes("{}".encode("utf-16"))

    for name, problem in (("folder", "it is no file"), ("pipe", "it is no file"), ("utf-16", "byte 1 is not UTF-8")):
        with pytest.raises(ConfigurationRefused, match=problem):
            ConfigFile.read(Path(folder, name))


def test_a_copy_that_does_not_fit_is_not_there_at_all(tmp_path):
    """Half of it would hold keys and be of no use; the file stays as it was."""
    with small_disk(tmp_path / "disk") as disk:
        file = disk.folder / "c.json"
        file.write_text("k" * 20_000)
        disk.fill(leave=2)
        with pytest.raises(OSError, match="space"):
            ConfigFile.read(file).write("new", NOW_US)
        assert disk.files() == ["c.json"]
        assert file.read_text() == "k" * 20_000
