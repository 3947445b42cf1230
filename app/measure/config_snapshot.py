"""The configuration that a run freezes, from what its server reports, what its log says and what a person entered."""

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sqlmodel import Session

from app import engines
from app.ceiling import ggml_geometry
from app.ceiling.geometry import Geometry, Source
from app.ceiling.named_totals import with_totals_checked
from app.ceiling.sources import from_document
from app.core.config_settings import DEFAULT, format_setting, ordered_setting_keys, setting_title
from app.core.configuration import Snapshot
from app.core.errors import BadInput, ServerError, ServerErrorKind
from app.core.i18n import N_, _, joined
from app.db import configs, restarts, runs, servers
from app.db.configs import split_models
from app.db.tables import FULL_GEOMETRY, Server
from app.engines.base import STATED_ENGINE, Engine, ModelInfo, ServerInfo
from app.engines.http import ServerClient, is_loopback
from app.measure.active_run import ActiveRun
from app.measure.server_log import settings_from_log
from app.measure.server_process import ObservedProcess, observe_process, process_json, process_words
from app.suites import Suite, estimate_tokens

log = logging.getLogger(__name__)

OVERRIDES = ("quantization", "engine_version")
"""Settings that a person may state when the server does not report them; they do not count as a person's own
settings."""

CONTEXT_STEP_TOKENS = 2048
# a prompt's size is estimated, and a chat template comes on top
_CONTEXT_MARGIN = 1.25

# --- which model, and how much context -------------------------------------------------------------------------------


def choose_model(info: ServerInfo, name: str | None) -> ModelInfo | None:
    """Returns the model to measure; None when the server lists none and none was named. Raises ServerError."""
    if not info.models:
        return ModelInfo(id=name, name=name) if name else None
    model = info.model(name)
    offered = ", ".join(model.id for model in info.models[:8])
    if model is None and name is None:
        raise ServerError(
            _(
                "Every model of the server runs elsewhere. Name one to measure it all the same: {offered}.",
                offered=offered,
            ),
            ServerErrorKind.UNKNOWN_MODEL,
        )
    if model is None:
        raise ServerError(
            _("The server has no model {model!r}. It offers: {offered}.", model=name, offered=offered),
            ServerErrorKind.UNKNOWN_MODEL,
        )
    if name not in (None, model.id) and len(candidates := info.namesakes(name)) > 1:
        raise ServerError(
            _(
                "{model!r} matches several models: {models}. Enter the full id of one.",
                model=name,
                models=", ".join(candidate.id for candidate in candidates),
            ),
            ServerErrorKind.UNKNOWN_MODEL,
        )
    return model


def namesakes(info: ServerInfo, model: ModelInfo | None) -> list[str]:
    """Returns the ids of other models of the server that are shown with the same name and quantization."""
    if model is None:
        return []
    shown = (model.name, model.quantization)
    return [
        candidate.id
        for candidate in info.models
        if candidate.id != model.id and (candidate.name, candidate.quantization) == shown
    ]


def requested_context(
    engine: Engine, model: ModelInfo | None, stated: object, suite: Suite, document: Mapping[str, Any] | None
) -> int | None:
    """The context that requests will ask for: what a person stated, else enough for the suite where the model gets less
    by itself; None where they ask for none.

    What happens to be loaded decides nothing: the same run always measures the same context.
    """
    if not engine.context_per_request:
        return None
    document = document or {}
    system = estimate_tokens(engine.own_system(document) or "")
    needed = max(
        round(_CONTEXT_MARGIN * (case.estimated_prompt_tokens + system)) + case.point.output_tokens
        for case in suite.cases
    )
    if isinstance(stated, int) and stated > 0:
        requested = stated
    elif engine.gives_context(document, needed):
        return None
    else:
        requested = -(-needed // CONTEXT_STEP_TOKENS) * CONTEXT_STEP_TOKENS
    if model is not None and model.max_context_tokens is not None:
        requested = min(requested, model.max_context_tokens)
    return requested


def context_tokens(info: ServerInfo, model: ModelInfo | None) -> int | None:
    """Returns the context that one request may use, in tokens; None when the server does not report it."""
    return info.context_tokens or (model.context_tokens if model else None)


# --- snapshot and geometry -------------------------------------------------------------------------------------------


def server_info_json(info: ServerInfo) -> dict[str, Any]:
    """Returns `info` as stored in `Server.facts`; capabilities and address have columns of their own."""
    document = asdict(info)
    for column in ("capabilities", "base_url"):
        document.pop(column)
    return document


def server_facts(base_url: str, info: ServerInfo) -> dict[str, Any]:
    """Returns what a probe of the server at `base_url` reports, and what its process on this machine says, as stored in
    `Server.facts`."""
    process = process_json(base_url, info)
    return {**server_info_json(info), **({} if process is None else {"process": process})}


def build_snapshot(server: Server, info: ServerInfo, model: ModelInfo | None) -> Snapshot:
    """The configuration of a run: what the server reports outranks what a person stated.

    Behind a gateway it is one of the engine that runs the model, with the gateway among its settings.
    """
    engine, engine_version = info.engine, info.engine_version
    all_stated = servers.stated_settings(server, model.id if model else None)
    stated = {key: value for key, value in all_stated.items() if key not in OVERRIDES}
    reported: dict[str, Any] = dict(info.settings)
    if model is not None:
        reported |= {
            **model.settings,
            "model_id": model.id,
            "model_file": None if model.file_path == model.id else model.file_path,
            "model_digest": model.digest,
            "model_bytes": model.size_bytes,
            "runs_on": model.runs_on,
        }
        if model.engine is not None:
            gateway = engines.find(info.engine).title
            reported["gateway"] = " ".join(filter(None, [gateway, info.engine_version]))
            engine, engine_version = model.engine, model.engine_version
    reported = {key: value for key, value in reported.items() if value is not None}
    if (context := context_tokens(info, model)) is not None:
        reported["context"] = context
    quantization = (model.quantization if model else None) or all_stated.get("quantization")
    return Snapshot(
        engine=engine,
        engine_version=engine_version or all_stated.get("engine_version"),
        model=model.name if model else "unnamed model",
        quantization=str(quantization) if quantization else None,
        settings=dict(sorted({**stated, **reported}.items())),
        labels=sorted(server.labels),
    )


def contradictions(
    stated: Mapping[str, Any], snapshot: Snapshot, of_process: Mapping[str, Any] | None = None
) -> list[str]:
    """One sentence for each setting that a person stated and the server reports otherwise: then its value counts.

    `of_process` is what its command line says.
    """
    by_report = N_("{title}: the server reports {reported}, not the stated {stated}.")
    by_process = N_("{title}: the command line of the server says {reported}, not the stated {stated}.")
    return [
        _(
            by_process if (of_process or {}).get(key) == snapshot.settings[key] else by_report,
            title=setting_title(key),
            reported=format_setting(snapshot.settings[key], key),
            stated=format_setting(value, key),
        )
        for key, value in stated.items()
        if key in snapshot.settings and snapshot.settings[key] != value
    ]


def stated_words(stated: Mapping[str, Any], model: ModelInfo | None) -> str | None:
    """One sentence with what a person once stated and every run of the model is measured with; None for nothing."""
    words = [f"{setting_title(key)} {format_setting(stated[key], key)}" for key in ordered_setting_keys(stated)]
    if not words:
        return None
    name = model.id if model is not None else _("this server")
    return _("Stated for {model} and remembered: {settings}.", model=name, settings=joined(*words, by=", "))


def model_geometry(
    server: Server, model: ModelInfo | None, document: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Returns what is known of the model's shape, as stored in `Model.geometry`, and warnings.

    The server reports parameters and size; its `document` about the model (Engine.model_document), or the model's file
    on this machine, has everything.
    """
    if model is None:
        return {}, []
    reported = {"parameters": model.parameters, "size_bytes": model.size_bytes}
    record: dict[str, Any] = {key: value for key, value in reported.items() if value is not None}
    try:
        if document is not None:
            geometry = from_document(document)
        elif model.file_path and is_loopback(server.base_url) and _is_readable(model.file_path):
            geometry = ggml_geometry.from_file(Path(model.file_path), Source.LLAMA_CPP)
        else:
            return record, []
    except BadInput as error:
        what = _("The server's description of its model") if document is not None else _("The model's file")
        return record, [_("{what} could not be understood, so there is no ceiling: {error}", what=what, error=error)]
    geometry = with_totals_checked(geometry, [model.name])
    warnings = [] if geometry.weights else [_("There is no ceiling: {why}.", why=geometry.assumptions[0])]
    return {**record, FULL_GEOMETRY: geometry.to_json()}, warnings


def _is_readable(path: str) -> bool:
    """Whether the model's file can be read here: a server in a container, or behind a tunnel, reports a path of another
    machine."""
    try:
        return Path(path).is_file() and os.access(path, os.R_OK)
    except (OSError, ValueError):  # not of this machine
        return False


# --- freezing --------------------------------------------------------------------------------------------------------


class ConfigFreezer:
    """Freezes the configuration of one run: at its start, or after the first request where that loads the model."""

    def __init__(
        self,
        active: ActiveRun,
        engine: Engine,
        client: ServerClient,
        info: ServerInfo,
        model: ModelInfo | None,
        document: Mapping[str, Any] | None,
    ) -> None:
        """`document` is the server's description of the model (Engine.model_document)."""
        self._active, self._engine, self._client = active, engine, client
        self._info, self._model, self._document = info, model, document
        self._is_frozen = False
        self._process = self._observe_process()

    @property
    def is_model_loaded(self) -> bool:
        """False where the first request has yet to load the model, or may load it anew: only then the server reports
        all of it."""
        is_placed_anew = self._engine.context_per_request and self._model is not None
        return not is_placed_anew and (self._model is None or self._model.is_loaded is not False)

    def freeze(self) -> None:
        """Stores the configuration from what is known, unless that was done."""
        if self._is_frozen:
            return
        self._is_frozen = True
        server_id = self._active.run.server_id
        snapshot, geometry_record, _doubts = self._current()
        evidence = self._process_evidence(snapshot)

        def store(session: Session) -> None:
            split_models(session, server_id)
            config = configs.freeze(
                session,
                server_id,
                snapshot,
                geometry_record,
                self._active.server.engine,
                namesakes(self._info, self._model),
            )
            restart = restarts.noticed(session, self._active.run, config, evidence)
            self._active.run.evidence = {**evidence, **({} if restart is None else {"restart": restart})}
            runs.record_progress(session, self._active.run_id, config_id=config.id, evidence=self._active.run.evidence)

        self._active.write(store)

    def freeze_after_first_round(self) -> None:
        """The first request has loaded the model, so the server is probed once more before the configuration is
        stored."""
        if not self._is_frozen:
            self._probe_again()
            self.freeze()

    def warnings(self) -> list[str]:
        """Returns what a person must know of the configuration before the run."""
        snapshot, _record, doubts = self._current()
        elsewhere = []
        if self._model is not None and self._model.runs_on is not None:
            elsewhere.append(
                _(
                    "{model} runs at {host}, not on this machine: the result says nothing about the machine's "
                    "hardware.",
                    model=self._model.id,
                    host=self._model.runs_on,
                )
            )
        notes = [*self._info.notes, *(self._model.notes if self._model else ())]
        of_process = {} if self._process is None else self._process.settings
        return [*elsewhere, *notes, *contradictions(self._stated(), snapshot, of_process), *doubts]

    def stated_words(self) -> str | None:
        """What of the configuration is remembered, in one sentence; None for nothing."""
        return stated_words(self._stated(), self._model)

    def _stated(self) -> Mapping[str, Any]:
        return servers.stated_settings(self._active.server, self._model.id if self._model else None)

    def wrong_model_warning(self) -> str | None:
        """Returns one sentence when the server answered with another of its models than the one requested."""
        if self._model is None:
            return None
        foreign_ids = {model.id for model in self._info.models if model.id != self._model.id}
        answering = dict.fromkeys(timed.sample.trace.model for timed in self._active.timed_samples)
        wrong = [model_id for model_id in answering if model_id is not None and model_id in foreign_ids]
        if not wrong:
            return None
        return _(
            "Asked for {asked}, the server answered with {answering}: the result may be that model's.",
            asked=self._model.id,
            answering=", ".join(wrong),
        )

    def _current(self) -> tuple[Snapshot, dict[str, Any], list[str]]:
        """Returns the snapshot, the geometry record and remarks on it. What the server reports outranks its log, that
        its command line, and all outrank what a person stated."""
        server = self._active.server
        record, doubts = model_geometry(server, self._model, self._document)
        geometry = Geometry.from_json(record[FULL_GEOMETRY]) if FULL_GEOMETRY in record else None
        engine = self._engine.answering(self._client)
        of_process = self._process_settings()
        logged = settings_from_log(server.log_path, engine, self._model, {**self._stated(), **of_process}, geometry)
        info = replace(self._info, settings={**of_process, **logged, **self._info.settings})
        return build_snapshot(server, info, self._model), record, doubts

    def _observe_process(self) -> ObservedProcess | None:
        weights = self._engine.weights_path(self._document) if self._document else None
        return observe_process(self._active.server.base_url, self._engine.key, self._model, weights)

    def _process_settings(self) -> Mapping[str, Any]:
        """Returns what the command line says. How many GPUs its default means is what a person knows better."""
        settings = {} if self._process is None else dict(self._process.settings)
        if settings.get("cards") == DEFAULT and "cards" in self._stated():
            del settings["cards"]
        return settings

    def _process_evidence(self, snapshot: Snapshot) -> dict[str, Any]:
        """Returns the run's evidence with the process that it was measured on, and what that said."""
        evidence = self._active.run.evidence
        if self._process is None:
            return evidence
        keys = [
            key
            for key, value in self._process_settings().items()
            if value != DEFAULT and snapshot.settings.get(key) == value
        ]
        check = process_words(keys)
        return {
            **evidence,
            "process": self._process.identity,
            "checks": [*evidence.get("checks", ()), *([] if check is None else [check])],
        }

    def _probe_again(self) -> None:
        assert self._model is not None, "only a model that is not loaded yet is probed again"
        server_id = self._active.run.server_id
        try:
            is_believed = STATED_ENGINE in self._active.server.capabilities
            info = engines.probe(self._client, self._engine.key, is_believed=is_believed)
        except ServerError:  # it has failed since, which the run reports
            return
        model = info.model(self._model.id)
        if model is None or model.id != self._model.id:
            return
        with suppress(ServerError):  # the list of models then says all that is known of it
            model = self._engine.loaded_model(self._client, model)
        self._info, asked = info, self._info.context_tokens
        context = model.context_tokens or (asked if self._engine.context_per_request else None)
        self._model = replace(model, runs_on=self._model.runs_on, context_tokens=context)
        self._client.backend = model.engine
        self._process = self._observe_process()
        facts = server_facts(self._active.server.base_url, info)
        self._active.write(lambda session: servers.remember(session, server_id, facts=facts))
