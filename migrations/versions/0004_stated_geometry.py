"""What a person says of a model."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "stated_geometry",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("model_name", sa.String(length=300), nullable=False),
        sa.Column("quantization", sa.String(length=60), nullable=False),
        sa.Column("geometry", sa.JSON(), nullable=False),
        sa.Column("form", sa.JSON(), nullable=False),
        sa.Column("stated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stated_geometry")),
        sa.UniqueConstraint("model_name", "quantization", name=op.f("uq_stated_geometry_model_name_quantization")),
    )


def downgrade() -> None:
    op.drop_table("stated_geometry")
