"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "machine",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("slug", sa.String(length=80), nullable=False),
        sa.Column("name", sa.String(length=120), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("accelerators", sa.JSON(), nullable=False),
        sa.Column("ram_bytes", sa.BigInteger(), nullable=True),
        sa.Column("ram_bandwidth_bytes_per_s", sa.Float(), nullable=True),
        sa.Column("ram_bandwidth_source", sa.String(length=20), nullable=True),
        sa.Column("os", sa.String(length=120), nullable=False),
        sa.Column("cpu", sa.String(length=120), nullable=False),
        sa.Column("notes", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("archived_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_machine")),
        sa.UniqueConstraint("slug", name=op.f("uq_machine_slug")),
    )
    op.create_table(
        "model",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=300), nullable=False),
        sa.Column("quantization", sa.String(length=60), nullable=False),
        sa.Column("geometry", sa.JSON(), nullable=False),
        sa.Column("geometry_sha256", sa.String(length=64), nullable=False),
        sa.Column("source", sa.String(length=300), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model")),
        sa.UniqueConstraint(
            "name", "quantization", "geometry_sha256", name=op.f("uq_model_name_quantization_geometry_sha256")
        ),
    )
    op.create_table(
        "suite",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=60), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("title", sa.String(length=120), nullable=False),
        sa.Column("definition", sa.JSON(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("archived_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_suite")),
        sa.UniqueConstraint("key", "version", name=op.f("uq_suite_key_version")),
        sa.UniqueConstraint("sha256", name=op.f("uq_suite_sha256")),
    )
    op.create_index("ix_suite_key", "suite", ["key"])

    op.create_table(
        "server",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("slug", sa.String(length=80), nullable=False),
        sa.Column("name", sa.String(length=120), nullable=False),
        sa.Column("engine", sa.String(length=40), nullable=False),
        sa.Column("base_url", sa.String(length=500), nullable=False),
        sa.Column("api_key_encrypted", sa.String(), nullable=True),
        sa.Column("model", sa.String(length=300), nullable=True),
        sa.Column("capabilities", sa.JSON(), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("probed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("archived_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["machine_id"], ["machine.id"], name=op.f("fk_server_machine_id_machine")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_server")),
        sa.UniqueConstraint("slug", name=op.f("uq_server_slug")),
    )
    op.create_index("ix_server_machine_id", "server", ["machine_id"])

    op.create_table(
        "config",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("server_id", sa.Integer(), nullable=False),
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("engine", sa.String(length=40), nullable=False),
        sa.Column("engine_version", sa.String(length=120), nullable=True),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["model.id"], name=op.f("fk_config_model_id_model")),
        sa.ForeignKeyConstraint(["server_id"], ["server.id"], name=op.f("fk_config_server_id_server")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_config")),
        sa.UniqueConstraint("server_id", "fingerprint", name=op.f("uq_config_server_id_fingerprint")),
    )
    op.create_index("ix_config_fingerprint", "config", ["fingerprint"])
    op.create_index("ix_config_model_id", "config", ["model_id"])

    op.create_table(
        "run",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("public_id", sa.String(length=16), nullable=False),
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("server_id", sa.Integer(), nullable=False),
        sa.Column("config_id", sa.Integer(), nullable=True),
        sa.Column("suite_key", sa.String(length=60), nullable=False),
        sa.Column("suite_sha256", sa.String(length=64), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.Column("source", sa.String(length=10), nullable=False),
        sa.Column("import_digest", sa.String(length=64), nullable=True),
        sa.Column("status", sa.String(length=12), nullable=False),
        sa.Column("note", sa.String(), nullable=False),
        sa.Column("main_point_key", sa.String(length=60), nullable=False),
        sa.Column("samples_planned", sa.Integer(), nullable=False),
        sa.Column("samples_done", sa.Integer(), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancel_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("worker_pid", sa.Integer(), nullable=True),
        sa.Column("worker_instance", sa.String(length=40), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.CheckConstraint("source IN ('live','import')", name=op.f("ck_run_source")),
        sa.CheckConstraint(
            "status IN ('queued','running','done','failed','cancelled','interrupted')", name=op.f("ck_run_status")
        ),
        sa.ForeignKeyConstraint(["config_id"], ["config.id"], name=op.f("fk_run_config_id_config")),
        sa.ForeignKeyConstraint(["machine_id"], ["machine.id"], name=op.f("fk_run_machine_id_machine")),
        sa.ForeignKeyConstraint(["server_id"], ["server.id"], name=op.f("fk_run_server_id_server")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
        sa.UniqueConstraint("import_digest", name=op.f("uq_run_import_digest")),
        sa.UniqueConstraint("public_id", name=op.f("uq_run_public_id")),
    )
    op.create_index("ix_run_config_id_started_at", "run", ["config_id", "started_at"])
    op.create_index("ix_run_server_id", "run", ["server_id"])
    op.create_index("ix_run_started_at", "run", ["started_at"])
    op.create_index("ix_run_status_queued_at", "run", ["status", "queued_at"])
    op.create_index(
        "uq_run_machine_running",
        "run",
        ["machine_id"],
        unique=True,
        sqlite_where=sa.text("status = 'running'"),
        postgresql_where=sa.text("status = 'running'"),
    )

    op.create_table(
        "measurement",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("point_key", sa.String(length=60), nullable=False),
        sa.Column("metric", sa.String(length=60), nullable=False),
        sa.Column("source", sa.String(length=12), nullable=False),
        sa.Column("unit", sa.String(length=20), nullable=False),
        sa.Column("is_shown", sa.Boolean(), nullable=False),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("low", sa.Float(), nullable=True),
        sa.Column("high", sa.Float(), nullable=True),
        sa.Column("minimum", sa.Float(), nullable=True),
        sa.Column("maximum", sa.Float(), nullable=True),
        sa.Column("standard_deviation", sa.Float(), nullable=True),
        sa.Column("left_out", sa.JSON(), nullable=False),
        sa.Column("sample_count", sa.Integer(), nullable=False),
        sa.Column("null_reason", sa.String(length=60), nullable=True),
        sa.Column("formula_version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_measurement_run_id_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_measurement")),
        sa.UniqueConstraint(
            "run_id", "point_key", "metric", "source", name=op.f("uq_measurement_run_id_point_key_metric_source")
        ),
    )
    op.create_index("ix_measurement_metric_run_id", "measurement", ["metric", "run_id"])

    op.create_table(
        "sample",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("point", sa.JSON(), nullable=False),
        sa.Column("is_warmup", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(length=12), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ttft_ms", sa.Float(), nullable=True),
        sa.Column("prefill_tokens_per_s", sa.Float(), nullable=True),
        sa.Column("decode_tokens_per_s", sa.Float(), nullable=True),
        sa.Column("record", sa.JSON(), nullable=False),
        sa.Column("events", sa.LargeBinary(), nullable=False),
        sa.Column("sensors", sa.JSON(), nullable=False),
        sa.Column("flags", sa.JSON(), nullable=False),
        sa.Column("error", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_sample_run_id_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sample")),
        sa.UniqueConstraint("run_id", "ordinal", name=op.f("uq_sample_run_id_ordinal")),
    )


def downgrade() -> None:
    for table in ("sample", "measurement", "run", "config", "server", "suite", "model", "machine"):
        op.drop_table(table)
