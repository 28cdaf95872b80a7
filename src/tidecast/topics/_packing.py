"""Packed values: compressed ones, and ones that lie in a storage outside of Kafka (the claim check).

Spark has no expression that compresses or that fetches a file, so such values pass as Arrow batches through the codecs
of C libraries and Arrow's file systems. Only topics that are packed pay for it.
Source: Changefeed configuration, large messages.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import quote, unquote

import lz4.frame
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidecast._errors import ConfigError, Unreachable
from tidecast._limits import LARGEST_MESSAGE
from tidecast._uri import REMOTE_SCHEMES, STORAGE_PARAMETERS, UNWRITTEN, Place, parse_place, redact_uri
from tidecast.model import Reason
from tidecast.storage import options_of, s3_options

_CLAIM_FILE = ".json"
_REMOTE = re.compile(r"(s3a?|gs|gcs|azure|azblob|hdfs|viewfs|abfss?)://")
_TOLD = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "azure": "azure", "azblob": "azure"}
"""What TiCDC's messages call a storage, by what a URI may call it."""
_AFTER_PATH = re.compile(r"[?#].*", re.S)
_ACCESS = re.compile(r"(?<=//)([^/?#@:]*):[^/?#]*(?=@)|[?#].*", re.S)
"""What of a URI is a password, or parameters, which may be credentials."""

_LZ4_MAGIC = bytes.fromhex("04224d18")
_LZ4_FIRST_GUESS = 8
_SNAPPY_RATIO = 24  # three bytes make at most 64
_PIECE = 1 << 24
_LARGEST_CLAIM = LARGEST_MESSAGE // 3 * 4 + (1 << 10)  # in Base64 and wrapped
_WHY = T.StructType([T.StructField("reason", T.StringType()), T.StructField("detail", T.StringType())])
_REFUSED = re.compile(r"ACCESS_DENIED|PERMISSION_DENIED|\b40[134]\b", re.I)
_UNUSABLE = "CDC:ErrInvalidReplicaConfig"


def _lz4(data: bytes) -> bytes:
    # The frame of TiCDC: independent blocks of 4 MiB, even where less would do, with a checksum of the content.
    size = lz4.frame.BLOCKSIZE_MAX4MB
    with lz4.frame.LZ4FrameCompressor(block_size=size, block_linked=False, content_checksum=True) as frame:
        return bytes(frame.begin() + frame.compress(data) + frame.flush())


def _snappy(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="snappy", asbytes=True))


class _Unusable(Exception):
    """Why a value cannot be unpacked; without a reason it may still be one that never was packed."""

    def __init__(self, detail: str, reason: Reason | None = None) -> None:
        super().__init__(detail)
        self.detail, self.reason = detail, reason


def _check_size(size: int, what: str) -> None:
    if size > LARGEST_MESSAGE:
        raise _Unusable(f"{what}, and a message may have {LARGEST_MESSAGE:,} bytes", Reason.TOO_LARGE)


def _un_lz4(data: bytes) -> bytes:
    """Unpack a frame piece by piece: neither its header nor its content is trusted to be small."""
    if not data.startswith(_LZ4_MAGIC):
        raise _Unusable("not an LZ4 frame")
    pieces: list[bytes] = []
    try:
        announced = lz4.frame.get_frame_info(data)["content_size"]
        _check_size(announced, f"the LZ4 frame's header announces {announced:,} bytes")
        with lz4.frame.LZ4FrameDecompressor() as frame:
            step = min(_LZ4_FIRST_GUESS * len(data), _PIECE)
            pieces.append(frame.decompress(data, max_length=step))
            size = len(pieces[0])
            while not frame.eof and not frame.needs_input:
                pieces.append(frame.decompress(b"", max_length=_PIECE))
                size += len(pieces[-1])
                _check_size(size, "the LZ4 frame holds more")
            whole = frame.eof and not frame.unused_data
    except RuntimeError as error:
        raise _Unusable(f"a broken LZ4 frame: {error}", Reason.UNDECODABLE) from None
    if not whole:
        raise _Unusable("an LZ4 frame that is cut off, or has more behind it", Reason.UNDECODABLE)
    return b"".join(pieces)


def _un_snappy(data: bytes) -> bytes:
    """Raw blocks begin with the length of what is in them, seven bits a byte, the lowest first."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    _check_size(size, f"the snappy block announces {size:,} bytes")
    if size > _SNAPPY_RATIO * len(data):
        raise _Unusable(f"a snappy block of {len(data):,} bytes cannot hold the {size:,} that it announces")
    try:
        return bytes(pa.decompress(data, size, codec="snappy", asbytes=True))
    except (OSError, pa.ArrowException):
        raise _Unusable("not a snappy block") from None


_PACK: dict[str, Callable[[bytes], bytes]] = {"lz4": _lz4, "snappy": _snappy}
_UNPACK: dict[str, Callable[[bytes], bytes]] = {"lz4": _un_lz4, "snappy": _un_snappy}


def compress(data: bytes, compression: str) -> bytes:
    """Return a value as `large-message-handle-compression` has it: `none`, `snappy` (raw blocks) or `lz4` (a frame)."""
    return _PACK[compression](data) if compression != "none" else data


def decompressed(frame: DataFrame, compression: str, parts: Sequence[str] = ("value",)) -> DataFrame:
    """Return messages with the keys or values, as `parts` names them, that they had before they were compressed.

    Out: the same columns, and `reason`, `detail`: why a part, which then stays as it is, cannot be had. One that is
    not compressed stays, too, with a `detail` alone.
    """
    if compression == "none":
        return frame
    return _unpacked(frame, _UNPACK[compression], parts)


def _unpacked(
    frame: DataFrame,
    unpack: Callable[..., bytes],
    parts: Sequence[str],
    given: Callable[[pa.RecordBatch], Sequence[pa.Array]] = lambda batch: (),
) -> DataFrame:
    """Return messages with what `unpack` makes of `given` and each of the parts; columns as in `decompressed`.

    A reason or a detail that a message already has stays where there is no new one.
    """
    columns = [f for f in frame.schema.fields if f.name not in _WHY.names]
    names = [f.name for f in columns]

    def batches(source: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in source:
            start = 0
            for made in _in_pieces(_tried(unpack, batch, parts, given(batch))):
                before = batch.slice(start, len(made))
                piece = before.select(names)
                start += len(made)
                *unpacked, reasons, details = zip(*made, strict=True)
                for part, column in zip(parts, unpacked, strict=True):
                    piece = _with(piece, part, pa.array(column, pa.binary()))
                texts = [pa.array(column, pa.string()) for column in (reasons, details)]
                if {*_WHY.names} <= {*before.schema.names}:
                    texts = [pc.coalesce(new, before[name]) for new, name in zip(texts, _WHY.names, strict=True)]
                yield pa.RecordBatch.from_arrays([*piece.columns, *texts], names=[*names, *_WHY.names])

    return frame.mapInArrow(batches, T.StructType([*columns, *_WHY.fields]))


_Made = tuple[bytes | str | None, ...]
"""The parts of a message, and the reason and the detail of one that cannot be unpacked."""


def _tried(
    unpack: Callable[..., bytes], batch: pa.RecordBatch, parts: Sequence[str], given: Sequence[pa.Array]
) -> Iterator[_Made]:
    for row in zip(*given, *(batch[name] for name in parts), strict=True):
        values = [one.as_py() for one in row]
        more, made = values[: len(given)], values[len(given) :]
        why: tuple[str | None, str | None] = (None, None)
        for n, packed in enumerate(made):
            try:
                made[n] = packed if packed is None else unpack(*more, packed)
            except _Unusable as error:
                why = why if why[0] else (error.reason, error.detail)
        yield (*made, *why)


def _in_pieces(made: Iterable[_Made]) -> Iterator[list[_Made]]:
    """Yield values in lists that end as soon as they are large: a few may unpack to more than memory has."""
    piece: list[_Made] = []
    size = 0
    for one in made:
        piece.append(one)
        size += sum(len(part) for part in one if isinstance(part, bytes))
        if size >= _PIECE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _with(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index(name), name, values)


def claim_location(storage: str, value: bytes) -> str:
    """Return where the whole of a message lies: a file named by its content, which a repeated run finds again.

    All readers of the topic see it, so it has neither the password nor the parameters of the storage's URI.
    """
    digest = hashlib.sha256(value).hexdigest()
    uuid = f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"
    return f"{_told(storage)}/{uuid}{_CLAIM_FILE}"


@cache
def _told(storage: str) -> str:
    """Return what messages call a storage: for TiCDC's own kinds by its name of the kind, percent-decoded."""
    scheme, _, place = storage.partition("://")
    if kind := _TOLD.get(scheme):
        authority, _, path = _AFTER_PATH.sub("", place).partition("/")
        return f"{kind}://{authority.rpartition('@')[2]}/{unquote(path).strip('/')}".rstrip("/")
    folder = claim_folder(storage)
    return f"file://{folder}" if folder else _ACCESS.sub(r"\1", storage).rstrip("/")


def _with_parameters(storage: str) -> Place | None:
    """Return the place of a URI with TiCDC's parameters, None for one that has no parameters, or Arrow's."""
    try:
        place = parse_place(storage)
    except ConfigError:
        return None
    kind = REMOTE_SCHEMES.get(place.scheme, "")
    if not place.params or not place.params.keys() <= STORAGE_PARAMETERS.get(kind, frozenset()):
        return None
    return None if kind == "s3a" and "@" in place.root else place  # a key before the bucket is Arrow's way


def _opened(storage: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a claim check's storage, which may be sent to where the rows are, and the folder in it.

    S3 takes TiCDC's parameters; a URI without any takes Spark's settings.
    """
    scheme, _, place = storage.partition("://")
    bucket, _, path = _AFTER_PATH.sub("", place).partition("/")
    folder = unquote(path).strip("/")
    if named := _with_parameters(storage):
        options = options_of(named)
        if "@" in named.root:
            bucket, _, host = named.root.partition("://")[2].partition("@")
            return pafs.AzureFileSystem(host.partition(".")[0], **options), f"{bucket}/{folder}".rstrip("/")
        storage = f"{named.root}{quote(named.path)}"
    else:
        options = s3_options(bucket) if scheme in ("s3", "s3a") and "?" not in place else {}
    if not options:
        system, folder = pafs.FileSystem.from_uri(re.sub("^s3a:", "s3:", storage))
        return system, folder
    system = pafs.S3FileSystem(
        access_key=options.get("key"),
        secret_key=options.get("secret"),
        session_token=options.get("token"),
        anonymous=options.get("anon", False),
        endpoint_override=options.get("endpoint_url", "").rstrip("/") or None,
        region=options.get("client_kwargs", {}).get("region_name"),
    )
    return system, f"{bucket}/{folder}".rstrip("/")


def check_storage(storage: str) -> None:
    """Raise ConfigError where a claim check's storage cannot be used, Unreachable where it does not answer."""
    with _storage_errors(storage), _answering(storage):
        named = _with_parameters(storage)
        for name in sorted(UNWRITTEN.keys() & named.params.keys()) if named else ():
            raise ConfigError(
                f"claim-check-storage-uri: {name} has no effect here", code=_UNUSABLE, hint=UNWRITTEN[name]
            )
        system, folder = _opened(storage)
        system.create_dir(folder, recursive=True)


@contextmanager
def _storage_errors(storage: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, pa.ArrowException) as error:
        words = str(error).splitlines()[0].replace(storage, redact_uri(storage))
        raise ConfigError(
            f"the claim-check storage cannot be used: {words}",
            code=_UNUSABLE,
            hint="claim-check-storage-uri takes file:///folder, s3://bucket/folder, gs://, azure://, abfss:// or hdfs://",
        ) from None


@contextmanager
def _answering(storage: str) -> Iterator[None]:
    """Raise Unreachable where a storage does not answer; errors of a file, and a refusal, go through."""
    try:
        yield
    except OSError as error:
        words = str(error).splitlines()[0].replace(storage, redact_uri(storage))
        if error.errno is not None or _REFUSED.search(words):
            raise
        raise Unreachable(f"the claim check's storage does not answer: {words}", where=redact_uri(storage)) from None


def claim_folder(storage: str) -> Path | None:
    """Return the local folder of a claim check's storage, None for any other storage and for what is none."""
    if _REMOTE.match(storage):  # to open some of these takes the network
        return None
    try:
        return Path(pafs.FileSystem.from_uri(storage)[1])
    except (OSError, ValueError, pa.ArrowException):
        return None


def store_claims(frame: DataFrame, storage: str, *, raw: bool) -> int:
    """Write whole messages to the claim check's storage; return how many.

    In: `location` string and `whole` binary, none of them null. `raw`: `claim-check-raw-value`. Files are written
    where the rows are, through Arrow's file systems.
    """
    system, folder = _opened(storage)

    def batches(source: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in source:
            for location, whole in zip(batch["location"].to_pylist(), batch["whole"].to_pylist(), strict=True):
                file = f"{folder}/{_file_of(location)}"
                with _answering(storage), system.open_output_stream(file) as stream:
                    stream.write(whole if raw else _wrapped(whole))
            yield pa.RecordBatch.from_arrays([pa.array([batch.num_rows], pa.int64())], names=["files"])

    done = frame.select("location", "whole").mapInArrow(batches, T.StructType([T.StructField("files", T.LongType())]))
    return int(done.agg(F.coalesce(F.sum("files"), F.lit(0))).collect()[0][0])


def fetched_claims(
    frame: DataFrame,
    storage: str,
    locations: Callable[[pa.Array], pa.Array],
    compression: str = "none",
    about: Callable[[bytes], object] = lambda value: None,
) -> DataFrame:
    """Return messages with their whole values, from the claim check's storage.

    In: `value` binary among other columns. `locations` finds where short messages say that their wholes lie, null for
    whole ones, and `about` gives what a short message and its whole have in common; both are sent to the tasks. Out:
    the same, and `reason`, `detail` as in `decompressed`. Only the last part of a location counts, not the place that a
    message names: a message may not have this process read what it likes.
    """
    unpack = _UNPACK.get(compression, bytes)
    with _storage_errors(storage):
        system, folder = _opened(storage)

    def whole(location: str | None, value: bytes) -> bytes:
        if location is None:
            return value
        file = _file_of(location)
        try:
            with _answering(storage), system.open_input_stream(f"{folder}/{file}") as stream:
                data = stream.read(_LARGEST_CLAIM + 1)
        except (OSError, ValueError) as error:
            raise _Unusable(f"the claim check's file {file} cannot be read: {type(error).__name__}") from None
        if len(data) > _LARGEST_CLAIM:
            _check_size(len(data), f"the claim check's file {file} has more")
        try:
            packed = _unwrapped(data)
        except ValueError:
            raise _Unusable(f"the claim check's file {file} is broken") from None
        _check_size(len(packed), f"the claim check's file {file} has more")
        found = unpack(packed)
        if about(found) != about(value):
            raise _Unusable(f"the claim check's file {file} holds another message, or none")
        return found

    return _unpacked(frame, whole, ("value",), lambda batch: [locations(batch["value"])])


def _file_of(location: str) -> str:
    return location.rpartition("/")[2]


def _wrapped(whole: bytes) -> bytes:
    return json.dumps({"key": None, "value": base64.b64encode(whole).decode()}, separators=(",", ":")).encode()


def _unwrapped(data: bytes) -> bytes:
    """Return the value in a claim check's file: wrapped in JSON, or raw. Raises ValueError for a broken wrapping."""
    try:
        claim = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if isinstance(claim, dict) and set(claim) == {"key", "value"}:
        if not isinstance(claim["value"], str):
            raise ValueError("no value")
        return base64.b64decode(claim["value"], validate=True)
    return data
