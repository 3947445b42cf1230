"""What a run freezes: its configuration and hardware, read once more where the first request has loaded the model."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app import engines
from app.core.configuration import Snapshot
from app.core.errors import ServerError
from app.core.i18n import _
from app.db import configs, runs, servers
from app.db.splitting import split_models
from app.engines.base import STATED_ENGINE, Engine, ModelInfo, ServerInfo
from app.engines.http import ServerClient
from app.measure import bench
from app.measure.bench import Prepared
from app.measure.runner import load_log, run_checks
from app.measure.runner.active_run import ActiveRun
from app.measure.runner.config_snapshot import contradictions, facts_json, geometry, namesakes, snapshot
from app.results import hardware

log = logging.getLogger(__name__)


def model_document(engine: Engine, client: ServerClient, model: ModelInfo | None) -> Mapping[str, Any] | None:
    """Without it there may be no ceiling, but there is a run."""
    try:
        return engine.model_document(client, model.id) if model else None
    except ServerError:
        log.info("the server does not describe its model", exc_info=True)
        return None


class Freezing:
    """The circumstances of one run."""

    def __init__(
        self,
        run: ActiveRun,
        engine: Engine,
        client: ServerClient,
        facts: ServerInfo,
        model: ModelInfo | None,
        document: Mapping[str, Any] | None,
    ) -> None:
        self._run, self._engine, self._client = run, engine, client
        self._facts, self._model, self._document = facts, model, document
        self._is_frozen = False

    def begin(self, prepared: Prepared) -> None:
        """Stores what is known before the first request: all of it, unless that request has yet to load the model."""
        m = self._run
        load_share = m.busy_check.look_before(m.stop) if m.busy_check else None
        m.run.evidence = run_checks.before(prepared, self._warnings(), load_share)
        m.planned = m.suite.sample_count(prepared.fitting)
        with m.database.write() as session:
            runs.beat(
                session,
                m.run_id,
                hardware=[] if self._is_elsewhere else hardware.freeze(session, m.run),
                evidence=m.run.evidence,
                samples_planned=m.planned,
                main_point_key=prepared.cases[0][0].point.key,
                progress={"phase": _("Measuring."), "step": bench.step(m.suite, prepared.fitting, 0)},
            )
        if self._model is None or self._model.is_loaded is not False:
            self.end()

    def after_a_round(self) -> None:
        """The first request has loaded the model: only now its server tells the context and the rest of it."""
        if self._is_frozen:
            return
        self._read_again()
        self.end()

    def end(self) -> None:
        """Freezes the configuration by what is known, unless that was done."""
        if self._is_frozen:
            return
        self._is_frozen = True
        m = self._run
        shape, _ = geometry(m.server, self._model, self._document)
        frozen = self._snapshot(shape)

        def store(session: Any) -> None:
            split_models(session, m.run.server_id)
            alike = namesakes(self._facts, self._model)
            config = configs.freeze(session, m.run.server_id, frozen, shape, m.server.engine, alike)
            runs.beat(session, m.run_id, config_id=config.id)

        m.write(store)

    def answered_by_another(self) -> str | None:
        """One sentence when the server answered with another of its models than the one that was asked for."""
        others = {other.id for other in self._facts.models if self._model is not None and other.id != self._model.id}
        models = dict.fromkeys(taken.sample.trace.model for taken in self._run.taken)
        answering = [model for model in models if model is not None and model in others]
        if not answering or self._model is None:
            return None
        return _(
            "Asked for {asked}, the server answered with {answering}: the result may be that model's.",
            asked=self._model.id,
            answering=", ".join(answering),
        )

    @property
    def _is_elsewhere(self) -> bool:
        return self._model is not None and self._model.runs_on is not None

    def _snapshot(self, shape: Mapping[str, Any]) -> Snapshot:
        """What the server says outranks its log, and both what a person stated."""
        server = self._run.server
        logged = load_log.settings_of_log(server.log_path, self._engine, self._model, server.settings, shape)
        return snapshot(server, replace(self._facts, settings={**logged, **self._facts.settings}), self._model)

    def _warnings(self) -> list[str]:
        shape, doubts = geometry(self._run.server, self._model, self._document)
        frozen = self._snapshot(shape)
        elsewhere = []
        if self._model is not None and self._model.runs_on is not None:
            elsewhere.append(
                _(
                    "{model} runs at {host}, not on this machine: the result says nothing of the machine's hardware.",
                    model=self._model.id,
                    host=self._model.runs_on,
                )
            )
        return [*elsewhere, *self._facts.notes, *contradictions(self._run.server, frozen), *doubts]

    def _read_again(self) -> None:
        assert self._model is not None, "only a model that is not loaded yet is read again"
        try:
            is_believed = STATED_ENGINE in self._run.server.capabilities
            facts = engines.probe(self._client, self._engine.key, is_believed=is_believed)
        except ServerError:  # it has broken down since, which its run says
            return
        model = facts.model(self._model.id)
        if model is None or model.id != self._model.id:
            return
        self._facts, self._model = facts, replace(model, runs_on=self._model.runs_on)
        m = self._run
        m.write(lambda session: servers.remember(session, m.run.server_id, facts=facts_json(facts)))
