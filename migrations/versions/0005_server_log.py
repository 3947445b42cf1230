"""The log file of a server, and with it what its lines tell."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    with op.batch_alter_table("server") as table:
        table.add_column(sa.Column("log_path", sa.String(length=1000), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("server") as table:
        table.drop_column("log_path")
