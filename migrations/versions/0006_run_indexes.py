"""Long lists of runs: the newest of all, and the newest of each configuration and suite."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_index("ix_run_queued_at_id", "run", ["queued_at", "id"])
    op.create_index(
        "ix_run_status_series", "run", ["status", "config_id", "suite_key", "started_at", "id", "hidden_at"]
    )


def downgrade() -> None:
    op.drop_index("ix_run_status_series", "run")
    op.drop_index("ix_run_queued_at_id", "run")
