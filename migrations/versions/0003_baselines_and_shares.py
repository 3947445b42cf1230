"""Runs keep their hardware, labels and whether they are hidden; baselines; shares."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    with op.batch_alter_table("config") as batch:
        batch.add_column(sa.Column("note", sa.String(), nullable=False, server_default=""))
    with op.batch_alter_table("config") as batch:
        batch.alter_column("note", server_default=None)
    with op.batch_alter_table("run") as batch:
        batch.add_column(sa.Column("labels", sa.JSON(), nullable=False, server_default="[]"))
        batch.add_column(sa.Column("hardware", sa.JSON(), nullable=False, server_default="[]"))
        batch.add_column(sa.Column("hidden_at", sa.DateTime(timezone=True), nullable=True))
        batch.add_column(sa.Column("hidden_reason", sa.String(), nullable=False, server_default=""))
    with op.batch_alter_table("run") as batch:
        for name in ("labels", "hardware", "hidden_reason"):
            batch.alter_column(name, server_default=None)
    op.create_table(
        "baseline",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("model_name", sa.String(length=300), nullable=False),
        sa.Column("suite_key", sa.String(length=60), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["machine_id"], ["machine.id"], name=op.f("fk_baseline_machine_id_machine"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_baseline_run_id_run"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_baseline")),
        sa.UniqueConstraint(
            "machine_id", "model_name", "suite_key", name=op.f("uq_baseline_machine_id_model_name_suite_key")
        ),
    )
    op.create_index(op.f("ix_baseline_run_id"), "baseline", ["run_id"])
    op.create_table(
        "share",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("slug", sa.String(length=40), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("title", sa.String(length=200), nullable=False),
        sa.Column("snapshot", sa.JSON(), nullable=False),
        sa.Column("schema_version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_share")),
        sa.UniqueConstraint("slug", name=op.f("uq_share_slug")),
    )


def downgrade() -> None:
    op.drop_table("share")
    op.drop_table("baseline")
    with op.batch_alter_table("run") as batch:
        for name in ("hidden_reason", "hidden_at", "hardware", "labels"):
            batch.drop_column(name)
    with op.batch_alter_table("config") as batch:
        batch.drop_column("note")
