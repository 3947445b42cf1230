"""From what a server tells and what a person said to the snapshot that a run freezes."""

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from app.ceiling import ggml_geometry
from app.ceiling.geometry import Source
from app.ceiling.named_totals import with_totals_checked
from app.ceiling.sources import from_document
from app.core.configuration import Snapshot, setting_title, show
from app.core.errors import BadInput, ServerError, ServerErrorKind
from app.core.i18n import _
from app.db.tables import FULL_GEOMETRY, Server
from app.engines.base import Engine, ModelInfo, ServerInfo
from app.engines.http import is_loopback
from app.suites import Suite

OVERRIDES = ("quantization", "engine_version")
"""Settings that a person may state where the server does not tell; they are no settings of their own."""

USUAL_CONTEXT_TOKENS = 4096
CONTEXT_STEP_TOKENS = 2048
# a prompt's size is estimated, and a chat template comes on top
_ROOM = 1.25


def facts_json(facts: ServerInfo) -> dict[str, Any]:
    """As kept in `Server.facts`; capabilities are kept apart."""
    kept = asdict(facts)
    for elsewhere in ("capabilities", "base_url"):
        kept.pop(elsewhere)
    return kept


def chosen_model(facts: ServerInfo, wanted: str | None) -> ModelInfo | None:
    """The model to measure; None when the server lists none and none was named. Raises ServerError."""
    if not facts.models:
        return ModelInfo(id=wanted, name=wanted) if wanted else None
    model = facts.model(wanted)
    offered = ", ".join(model.id for model in facts.models[:8])
    if model is None and wanted is None:
        raise ServerError(
            _(
                "Every model of the server runs elsewhere. Name one to measure it all the same: {offered}.",
                offered=offered,
            ),
            ServerErrorKind.UNKNOWN_MODEL,
        )
    if model is None:
        raise ServerError(
            _("The server has no model {wanted!r}. It offers: {offered}.", wanted=wanted, offered=offered),
            ServerErrorKind.UNKNOWN_MODEL,
        )
    if wanted not in (None, model.id) and len(alike := facts.namesakes(wanted)) > 1:
        raise ServerError(
            _(
                "{wanted!r} may be any of these models: {alike}. Give the whole id of one.",
                wanted=wanted,
                alike=", ".join(namesake.id for namesake in alike),
            ),
            ServerErrorKind.UNKNOWN_MODEL,
        )
    return model


def namesakes(facts: ServerInfo, model: ModelInfo | None) -> list[str]:
    """The ids of other models of the server that are shown alike."""
    if model is None:
        return []
    alike = (model.name, model.quantization)
    return [other.id for other in facts.models if other.id != model.id and (other.name, other.quantization) == alike]


def snapshot(server: Server, facts: ServerInfo, model: ModelInfo | None) -> Snapshot:
    """What the server tells by itself outranks what a person once said."""
    said = {key: value for key, value in server.settings.items() if key not in OVERRIDES}
    of_model = {} if model is None else {**model.settings, **_identity(model)}
    told: Mapping[str, Any] = {key: value for key, value in {**facts.settings, **of_model}.items() if value is not None}
    context = context_tokens(facts, model)
    if context is not None:
        told = {**told, "context": context}
    quantization = (model.quantization if model else None) or server.settings.get("quantization")
    return Snapshot(
        engine=facts.engine,
        engine_version=facts.engine_version or server.settings.get("engine_version"),
        model=model.name if model else "unnamed model",
        quantization=str(quantization) if quantization else None,
        settings=dict(sorted({**said, **told}.items())),
        labels=sorted(server.labels),
    )


def _identity(model: ModelInfo) -> dict[str, Any]:
    """Which weights they are, as far as the server tells, and who works on them."""
    return {
        "model_id": model.id,
        "model_file": None if model.file_path == model.id else model.file_path,
        "model_digest": model.digest,
        "model_bytes": model.size_bytes,
        "runs_on": model.runs_on,
    }


def contradictions(server: Server, frozen: Snapshot) -> list[str]:
    """What a person once said and the server tells otherwise: the server's word counts."""
    return [
        _(
            "{title} is {told} as the server says, not {said} as it was stated.",
            title=setting_title(key),
            told=show(frozen.settings[key], key),
            said=show(said, key),
        )
        for key, said in server.settings.items()
        if key in frozen.settings and frozen.settings[key] != said
    ]


def with_context(facts: ServerInfo, engine: Engine, model: ModelInfo | None, said: object, suite: Suite) -> ServerInfo:
    """Facts with the context that requests will ask for, where they do: what a person said, else enough for the suite.

    What the server has loaded stays when it is enough: another context would load the model anew.
    """
    if not engine.sets_context:
        return facts
    known = context_tokens(facts, model) or 0
    needed = max(round(_ROOM * case.estimated_prompt_tokens) + case.point.output_tokens for case in suite.cases)
    wanted = max(USUAL_CONTEXT_TOKENS, known, -(-needed // CONTEXT_STEP_TOKENS) * CONTEXT_STEP_TOKENS)
    if isinstance(said, int) and said > 0:
        wanted = said
    if model is not None and model.max_context_tokens is not None:
        wanted = min(wanted, model.max_context_tokens)
    return replace(facts, context_tokens=wanted)


def context_tokens(facts: ServerInfo, model: ModelInfo | None) -> int | None:
    return facts.context_tokens or (model.context_tokens if model else None)


def geometry(
    server: Server, model: ModelInfo | None, document: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], list[str]]:
    """What is known of the model's shape, and warnings: what the server tells and, by its own `document` about the
    model (Engine.model_document) or a file on this machine, all."""
    if model is None:
        return {}, []
    told = {"parameters": model.parameters, "size_bytes": model.size_bytes}
    known: dict[str, Any] = {key: value for key, value in told.items() if value is not None}
    try:
        if document is not None:
            full = from_document(document)
        elif model.file_path and is_loopback(server.base_url) and _is_readable(model.file_path):
            full = ggml_geometry.from_file(Path(model.file_path), Source.LLAMA_CPP)
        else:
            return known, []
    except BadInput as error:
        what = _("What the server says of its model") if document is not None else _("The model's file")
        return known, [_("{what} could not be understood, so there is no ceiling: {error}", what=what, error=error)]
    full = with_totals_checked(full, [model.name])
    warnings = [] if full.weights else [_("There is no ceiling: {why}.", why=full.assumptions[0])]
    return {**known, FULL_GEOMETRY: full.to_json()}, warnings


def _is_readable(path: str) -> bool:
    """A server in a container, or behind a tunnel, names a path that is not of this machine."""
    try:
        return Path(path).is_file() and os.access(path, os.R_OK)
    except (OSError, ValueError):  # not of this machine
        return False
