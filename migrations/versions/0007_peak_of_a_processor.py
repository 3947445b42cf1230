"""How much a machine's processor can compute at most."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    with op.batch_alter_table("machine") as table:
        table.add_column(sa.Column("cpu_flops_per_s", sa.Float(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("machine") as table:
        table.drop_column("cpu_flops_per_s")
