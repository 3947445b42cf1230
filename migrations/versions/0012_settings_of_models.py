"""What a person states is remembered per model, where a server has several."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    with op.batch_alter_table("server") as table:
        table.add_column(sa.Column("model_settings", sa.JSON(), nullable=False, server_default="{}"))
    with op.batch_alter_table("server") as table:
        table.alter_column("model_settings", server_default=None)


def downgrade() -> None:
    with op.batch_alter_table("server") as table:
        table.drop_column("model_settings")
