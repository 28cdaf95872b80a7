"""The web application: TiCDC's API, versions 2 and 1, the status page, and metrics."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi_offline import FastAPIOffline
from pydantic import AfterValidator, BaseModel, Field, ValidationError
from pydantic_core import PydanticCustomError

from tidecast._errors import ConfigError, TidecastError
from tidecast.changefeed import Changefeeds, ChangefeedSpec
from tidecast.config import check_types, checked_replica_config
from tidecast.model import compose, physical_ms
from tidecast.server import _answers
from tidecast.server._access import Access
from tidecast.server._answers import TICDC_VERSION, answer
from tidecast.server._cluster import RedactRequest, cluster_routes
from tidecast.server._history import History, Sample
from tidecast.server._limits import content_of, read_json
from tidecast.server._metrics import FeedMetrics
from tidecast.server._overview import overview
from tidecast.server._page import about, add_page

_log = logging.getLogger(__name__)

_LEVELS = {"": logging.INFO, "debug": logging.DEBUG, "info": logging.INFO, "error": logging.ERROR}
_LEVELS |= dict.fromkeys(("warn", "warning"), logging.WARNING)
_LEVELS |= dict.fromkeys(("dpanic", "panic", "fatal"), logging.CRITICAL)
"""The levels by their names in TiCDC's log."""

Tso = Annotated[int, Field(ge=0, lt=1 << 64, strict=True)]
Uri = Annotated[str, Field(max_length=65_536)]


def _typed(config: dict[str, Any]) -> dict[str, Any]:
    try:
        check_types(config)
    except ConfigError as error:
        raise PydanticCustomError("replica_config", "{why}", {"why": error.message}) from None
    return config


ReplicaConfig = Annotated[dict[str, Any], AfterValidator(_typed)]


class TableQuery(BaseModel):
    """The body of `verify_table` and `get_all_tables`."""

    sink_uri: Uri = ""
    start_ts: Tso = 0
    replica_config: ReplicaConfig | None = None


class FeedRequest(BaseModel):
    """The body of requests that create or update a changefeed."""

    changefeed_id: str = ""
    start_ts: Tso = 0
    target_ts: Tso = 0
    sink_uri: Uri = ""
    replica_config: ReplicaConfig | None = None

    def spec(self) -> ChangefeedSpec:
        """Return it in the words of `Changefeeds`."""
        return ChangefeedSpec(self.changefeed_id, self.sink_uri, self.replica_config, self.start_ts, self.target_ts)


class OldFeedRequest(FeedRequest):
    """The body of requests of version 1 that create or update a changefeed.

    Its `sink_config` has the names of a changefeed file's `[sink]`. Source: Changefeeds, HTTP API v1.
    """

    force_replicate: bool | None = None
    ignore_ineligible_table: bool | None = None
    filter_rules: list[str] | None = None
    ignore_txn_start_ts: list[Tso] | None = None
    mounter_worker_num: int | None = None
    sink_config: dict[str, Any] | None = None
    replica_config: Any = None

    def spec(self) -> ChangefeedSpec:
        """Return it in the words of `Changefeeds`. Raises ConfigError for settings that TiCDC has not."""
        if self.replica_config is not None:  # to ignore it, as TiCDC does, would publish every table
            raise _unreadable("replica_config is of /api/v2: write filter_rules, sink_config and their like")
        file = _given(
            force_replicate=self.force_replicate,
            ignore_ineligible_table=self.ignore_ineligible_table,
            filter=_given(rules=self.filter_rules, ignore_txn_start_ts=self.ignore_txn_start_ts),
            mounter=_given(worker_num=self.mounter_worker_num or None),
            sink=self.sink_config,
        )
        try:
            config = checked_replica_config(file, "sink_config")
        except ConfigError as error:
            raise error if error.code else _unreadable(str(error)) from None
        return ChangefeedSpec(self.changefeed_id, self.sink_uri, config, self.start_ts, self.target_ts, patch=True)


class ResumeRequest(BaseModel):
    """The body of a request that resumes a changefeed."""

    overwrite_checkpoint_ts: Tso = 0


class LogRequest(BaseModel):
    """The body of a request that sets the log's level."""

    log_level: str = "info"


Body = TypeVar("Body", bound=BaseModel)


def build_app(
    feeds: Changefeeds, access: Access, *, addr: str, cluster_id: str = "default", source: str = ""
) -> FastAPI:
    """Return the web application over some changefeeds. `addr` is where it says that it listens, `source` what it
    says that they read: without secrets."""
    since, history = time.time(), History(lambda: _samples(feeds))
    app = FastAPIOffline(  # its page loads nothing from elsewhere
        redoc_url=None,
        title="tidecast",
        version=TICDC_VERSION,
        description="TiCDC's API v2 over tidecast's changefeeds.",
        redirect_slashes=False,
        lifespan=history.kept,
    )
    add_page(
        app, access, "index.html", history, FeedMetrics(feeds).text, lambda feed_id: feeds.get(feed_id).dead_letters_at
    )
    app.add_exception_handler(TidecastError, _refused)
    app.add_exception_handler(OSError, _unusable)
    app.add_exception_handler(Exception, _broken)
    capture = {"id": str(uuid.uuid4()), "is_owner": True, "address": addr, "cluster_id": cluster_id}
    app.include_router(_api(feeds, capture, "/api/v2"))
    app.include_router(_api(feeds, capture, "/api/v1", old=True), include_in_schema=False)
    app.include_router(cluster_routes(feeds, capture, _body(RedactRequest)))

    @app.get("/status", include_in_schema=False)
    async def status() -> Response:
        return _status(capture)

    @app.get("/page", include_in_schema=False)
    def page_content() -> Response:
        shown = overview(feeds.list(), feeds.runner.now())
        return answer({**about(source, since, time.time()), "changefeeds": shown})

    return app


def _api(feeds: Changefeeds, capture: dict[str, Any], prefix: str, *, old: bool = False) -> APIRouter:
    """Return the API's routes. The `old` version lists bare arrays, and accepts where the new one has done."""
    api = APIRouter(prefix=prefix)
    done = 202 if old else 200
    feed_request = Depends(_body(OldFeedRequest if old else FeedRequest))

    def many(items: list[dict[str, Any]]) -> Response:
        return answer(items if old else {"total": len(items), "items": items})

    # These two wait for no thread, however many requests keep them busy.
    @api.get("/status", summary="This server")
    async def status() -> Response:
        return _status(capture)

    @api.get("/health", summary="Whether changefeeds can run")
    async def health() -> Response:
        return answer({})

    @api.post("/tso", summary="The present moment as a TSO")
    def tso() -> Response:
        now = feeds.runner.now()
        physical = physical_ms(now)
        return answer({"timestamp": physical, "logic_time": now - compose(physical)})

    @api.get("/captures", summary="The servers: this one")
    def captures() -> Response:
        return many([capture])

    @api.post("/verify_table", summary="What a filter does with the source's tables", openapi_extra=_takes(TableQuery))
    def verify_table(query: Annotated[TableQuery, Depends(_body(TableQuery))]) -> Response:
        return answer(_answers.tables(feeds.verify(query.sink_uri, query.replica_config)))

    @api.post("/get_all_tables", summary="The same, whatever the sink", openapi_extra=_takes(TableQuery))
    def get_all_tables(query: Annotated[TableQuery, Depends(_body(TableQuery))]) -> Response:
        return answer(_answers.tables(feeds.sort_tables(query.replica_config)))

    @api.get("/changefeeds", summary="Changefeeds: all, of one state, or all but the finished")
    def list_feeds(state: str = "") -> Response:
        return many(_answers.listed(feeds.list(), state))

    @api.post("/changefeeds", summary="Create a changefeed", openapi_extra=_takes(FeedRequest), status_code=done)
    def create(request: FeedRequest = feed_request) -> Response:
        return answer(_answers.info(feeds.create(request.spec())), done)

    @api.get("/changefeeds/{feed_id}", summary="A changefeed")
    def get(feed_id: str) -> Response:
        return answer(_answers.info(feeds.get(feed_id)))

    @api.put("/changefeeds/{feed_id}", summary="Change a changefeed", openapi_extra=_takes(FeedRequest))
    def update(feed_id: str, request: FeedRequest = feed_request) -> Response:
        return answer(_answers.info(feeds.update(feed_id, request.spec())), done)

    @api.delete("/changefeeds/{feed_id}", summary="Remove a changefeed", status_code=done)
    def remove(feed_id: str) -> Response:
        return answer({} if feeds.remove(feed_id) else None, done)

    @api.post("/changefeeds/{feed_id}/pause", summary="Stop a changefeed", status_code=done)
    def pause(feed_id: str) -> Response:
        feeds.pause(feed_id)
        return answer({}, done)

    @api.post(
        "/changefeeds/{feed_id}/resume",
        summary="Let a changefeed go on",
        openapi_extra=_takes(ResumeRequest),
        status_code=done,
    )
    def resume(
        feed_id: str, request: Annotated[ResumeRequest, Depends(_body(ResumeRequest, optional=True))]
    ) -> Response:
        feeds.resume(feed_id, request.overwrite_checkpoint_ts)
        return answer({}, done)

    @api.get("/changefeeds/{feed_id}/status", summary="A changefeed's state")
    def feed_status(feed_id: str) -> Response:
        return answer(_answers.status(feeds.get(feed_id)))

    @api.get("/changefeeds/{feed_id}/synced", summary="Whether everything has arrived")
    def synced(feed_id: str) -> Response:
        return answer(_answers.synced(feeds.get(feed_id), feeds.runner.now()))

    @api.get("/processors", summary="None: TiCDC's clients ask")
    def processors() -> Response:
        return many([])

    @api.get("/processors/{feed_id}/{capture_id}", summary="None: TiCDC's clients ask")
    def processor(feed_id: str, capture_id: str) -> Response:
        return answer({"table_ids": None})

    @api.post("/log", summary="Set the log's level", openapi_extra=_takes(LogRequest))
    def log(request: Annotated[LogRequest, Depends(_body(LogRequest))]) -> Response:
        level = _LEVELS.get(request.log_level.lower())
        if level is None:
            raise ConfigError(f"fail to change log level: {request.log_level}", code="CDC:ErrAPIInvalidParam")
        logging.getLogger("tidecast").setLevel(level)
        return answer({})

    @api.post("/owner/resign", summary="Nothing: there is no other server", status_code=done)
    def resign() -> Response:
        return answer({}, done)

    return api


def _samples(feeds: Changefeeds) -> dict[str, Sample]:
    now = feeds.runner.now()
    return {one.feed.id: Sample(one.lag(now), sum(one.messages.values())) for one in feeds.list()}


def _status(capture: dict[str, Any]) -> Response:
    return answer(
        {"version": TICDC_VERSION, "git_hash": "tidecast", "id": capture["id"]}
        | {"cluster_id": capture["cluster_id"], "pid": os.getpid(), "is_owner": True, "liveness": 0},
        indented=True,
    )


def _takes(model: type[BaseModel]) -> dict[str, Any]:
    return {"requestBody": {"content": {"application/json": {"schema": model.model_json_schema()}}}}


def _body(model: type[Body], *, optional: bool = False) -> Callable[[Request], Awaitable[Body]]:
    """Return what reads a request's body, as leniently as TiCDC: any content type, and none where it is `optional`."""

    def parsed(content: bytes) -> Body:
        try:
            if not content.strip() and not optional:
                raise ValueError("EOF")
            members = read_json(content) if content.strip() else {}
            if not isinstance(members, dict):
                raise ValueError("this is not a JSON object")
            return model.model_validate({k: v for k, v in members.items() if v is not None})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            raise _unreadable(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        except ValueError as error:
            raise _unreadable(str(error)) from None

    async def read(request: Request) -> Body:
        return await run_in_threadpool(parsed, await content_of(request))

    return read


def _given(**members: object) -> dict[str, Any]:
    """Return what was given of a table of a changefeed file."""
    return {name.replace("_", "-"): value for name, value in members.items() if value is not None and value != {}}


def _unreadable(why: str) -> ConfigError:
    return ConfigError(f"invalid api parameter: {why}", code="CDC:ErrAPIInvalidParam")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, TidecastError)
    return _answers.refusal(error)


async def _unusable(request: Request, error: Exception) -> Response:
    assert isinstance(error, OSError)
    where = f"{error.filename}: " if error.filename else ""
    return _answers.failure(f"the server cannot keep its changefeeds: {where}{error.strerror or error}", "", 500)


async def _broken(request: Request, error: Exception) -> Response:
    return _answers.failure(f"internal error: {type(error).__name__}", "", 500)
