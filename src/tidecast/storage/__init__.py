"""Folders and files on any storage: `pathlib.Path` for those of this machine, `RemotePath` for all others.

A remote store must do three things, which S3, Google's and Azure's stores do: an object appears whole or not at all, a
listing shows what has been written before, and an object can be made only where there is none (`create`). All that one
process may do at a time rests on the last; `check_exclusive` refuses a store that cannot do it.
"""

from tidecast.storage._entries import Entry, entries, entry, files_below
from tidecast.storage._files import (
    check_exclusive,
    copy,
    make_folder,
    move,
    remove_file,
    remove_tree,
    replace_file,
    sync_folder,
    touch,
    write_new,
)
from tidecast.storage._lock import Lock, locked
from tidecast.storage._open import (
    folder_path,
    options_of,
    path_of,
    path_uri,
    s3_options,
    spark_input,
    spark_inputs,
    spark_output,
    storage_path,
)
from tidecast.storage._remote import AnyPath, RemotePath
from tidecast.storage._state import StateFile

__all__ = [
    "AnyPath",
    "Entry",
    "Lock",
    "RemotePath",
    "StateFile",
    "check_exclusive",
    "copy",
    "entries",
    "entry",
    "files_below",
    "folder_path",
    "locked",
    "make_folder",
    "move",
    "options_of",
    "path_of",
    "path_uri",
    "remove_file",
    "remove_tree",
    "replace_file",
    "s3_options",
    "spark_input",
    "spark_inputs",
    "spark_output",
    "storage_path",
    "sync_folder",
    "touch",
    "write_new",
]
