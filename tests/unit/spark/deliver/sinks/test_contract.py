"""What a sink may be told, and what an error of a sink says."""

import errno
import os
from pathlib import Path

import pytest

from shoal.dataplane.commands import Sink
from shoal.kernel.errors import UserError
from shoal.spark.deliver.sinks.contract import FORMATS, OPTIONS, check_sink, refused
from shoal.spark.deliver.sinks.opened import open_sink

ROOT = Path("/mesh/root")
WHOLE = {
    "files": {"path": "/out", "format": "csv"},
    "delta": {"path": "/out"},
    "jsonl": {"path": "/out/x"},
    "console": {"rows": "3"},
}


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_every_kind_with_what_it_needs(kind: str) -> None:
    for extra in ({}, {"identity": "false"}):
        sink = Sink(kind=kind, options={**WHOLE[kind], **extra})
        check_sink(sink, root=ROOT)
        open_sink(sink, "hot-1", "hot")


def test_every_format_can_be_said() -> None:
    for form in FORMATS:
        check_sink(Sink(kind="files", options={"path": "/out", "format": form}), root=ROOT)


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("file", {}, "did you mean files"),
        ("kafka", {}, "one of files, delta, jsonl, console"),
        ("files", {"path": "/out", "format": "csv", "compresion": "x"}, "'compresion'"),
        ("jsonl", {"path": "/out", "identiti": "true"}, "did you mean identity"),
        ("files", {"path": "/out"}, "needs the option 'format'"),
        ("delta", {"path": ""}, "needs the option 'path'"),
        ("files", {"path": "/out", "format": "parket"}, "did you mean parquet"),
        ("delta", {"path": "/out", "identity": "yes"}, "true or false"),
        ("console", {"rows": "-3"}, "is a number"),
        ("delta", {"path": "s3://bucket/x"}, "of this machine"),
        ("delta", {"path": "out"}, "is not absolute"),
        ("delta", {"path": "/mesh/root"}, "the root of the mesh"),
        ("delta", {"path": "/mesh/root/tables/x"}, "the root of the mesh"),
        ("delta", {"path": "/mesh"}, "the root of the mesh"),
    ],
)
def test_what_is_refused(kind: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(UserError) as raised:
        check_sink(Sink(kind=kind, options=options), root=ROOT)
    assert said in str(raised.value)


def test_a_folder_beside_the_root_may_be_a_sink() -> None:
    check_sink(Sink(kind="delta", options={"path": "/mesh/roots"}), root=ROOT)


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (errno.ENOSPC, "free space"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "the right to write"),
        (errno.ENOENT, "its folder is gone"),
        (errno.EISDIR, "a folder stands"),
        (errno.EIO, "look at its disk"),
    ],
)
def test_an_error_says_what_why_and_what_to_do(code: int, hint: str) -> None:
    error = refused("write to", Path("/out"), OSError(code, os.strerror(code)))
    assert error.what == "cannot write to sink /out"
    assert error.detail == f"{os.strerror(code)} ({errno.errorcode[code]})"
    assert hint in error.hint


def test_an_error_without_a_number_has_its_text() -> None:
    assert refused("prepare", Path("/out"), OSError("odd")).detail == "odd (no code)"
