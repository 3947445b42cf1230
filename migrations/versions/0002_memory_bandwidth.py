"""Machines know their memory; its bandwidth is measured; a person has devices of their own."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    with op.batch_alter_table("machine") as batch:
        batch.add_column(sa.Column("ram_kind", sa.String(length=20), nullable=True))
        batch.add_column(sa.Column("ram_data_rate_mt_per_s", sa.Float(), nullable=True))
        batch.add_column(sa.Column("ram_bus_bits", sa.Integer(), nullable=True))
        batch.add_column(sa.Column("physical_cores", sa.Integer(), nullable=True))
        batch.add_column(sa.Column("llc_bytes", sa.BigInteger(), nullable=True))
        batch.add_column(sa.Column("hostname", sa.String(length=255), nullable=True))
    op.create_table(
        "bandwidth_probe",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=12), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("best_bytes_per_s", sa.Float(), nullable=True),
        sa.Column("median_bytes_per_s", sa.Float(), nullable=True),
        sa.Column("threads", sa.Integer(), nullable=True),
        sa.Column("record", sa.JSON(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.CheckConstraint("status IN ('running','done','failed')", name=op.f("ck_bandwidth_probe_status")),
        sa.ForeignKeyConstraint(
            ["machine_id"], ["machine.id"], name=op.f("fk_bandwidth_probe_machine_id_machine"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bandwidth_probe")),
    )
    op.create_index("ix_bandwidth_probe_machine_id_started_at", "bandwidth_probe", ["machine_id", "started_at"])
    op.create_index(
        "uq_bandwidth_probe_machine_running",
        "bandwidth_probe",
        ["machine_id"],
        unique=True,
        sqlite_where=sa.text("status = 'running'"),
        postgresql_where=sa.text("status = 'running'"),
    )
    op.create_table(
        "device",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=120), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("bandwidth_bytes_per_s", sa.Float(), nullable=False),
        sa.Column("compute_flops_per_s", sa.Float(), nullable=True),
        sa.Column("fastest_flops_per_s", sa.Float(), nullable=True),
        sa.Column("source", sa.String(length=300), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_device")),
        sa.UniqueConstraint("name", name=op.f("uq_device_name")),
    )


def downgrade() -> None:
    op.drop_table("device")
    op.drop_table("bandwidth_probe")
    with op.batch_alter_table("machine") as batch:
        for name in ("hostname", "llc_bytes", "physical_cores", "ram_bus_bits", "ram_data_rate_mt_per_s", "ram_kind"):
            batch.drop_column(name)
