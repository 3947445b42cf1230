"""One number, one place: a sample's triple is computed from it, and a run knows what it was derived with."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

TRIPLE = ("ttft_ms", "prefill_tokens_per_s", "decode_tokens_per_s")


def upgrade() -> None:
    with op.batch_alter_table("sample") as batch:
        for name in TRIPLE:
            batch.drop_column(name)
    with op.batch_alter_table("run") as batch:
        batch.drop_column("heartbeat_at")
        batch.add_column(sa.Column("metrics_digest", sa.String(length=64), nullable=True))
    op.create_index("ix_run_metrics_digest", "run", ["metrics_digest"])


def downgrade() -> None:
    """The triple of a sample is null then: an older version shows no baseline verdict of the runs that are there."""
    op.drop_index("ix_run_metrics_digest", "run")
    with op.batch_alter_table("run") as batch:
        batch.drop_column("metrics_digest")
        batch.add_column(sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True))
    with op.batch_alter_table("sample") as batch:
        for name in TRIPLE:
            batch.add_column(sa.Column(name, sa.Float(), nullable=True))
