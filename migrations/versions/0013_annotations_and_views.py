"""Dated notes of a person in the history, and saved views of pages; machines with one name are told apart."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


_MOST_NAME_CHARS = 120
_machine = sa.table("machine", sa.column("id"), sa.column("name"), sa.column("slug"))


def _rename_namesakes() -> None:
    """Gives each machine a name of its own: one whose name an earlier machine has gets its slug, which is unique."""
    connection, used = op.get_bind(), set[str]()
    for machine in connection.execute(sa.select(_machine).order_by(_machine.c.id)).all():
        name = machine.name
        if name.casefold() in used:
            ending = f" ({machine.slug})"
            name = name[: _MOST_NAME_CHARS - len(ending)] + ending
            connection.execute(_machine.update().where(_machine.c.id == machine.id).values(name=name))
        used.add(name.casefold())


def upgrade() -> None:
    _rename_namesakes()
    op.create_table(
        "annotation",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("machine_id", sa.Integer(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("text", sa.String(length=200), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["machine_id"], ["machine.id"], name=op.f("fk_annotation_machine_id_machine"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_annotation")),
    )
    op.create_index(op.f("ix_annotation_machine_id"), "annotation", ["machine_id"])
    op.create_table(
        "saved_view",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("page", sa.String(length=20), nullable=False),
        sa.Column("query", sa.String(length=2000), nullable=False),
        sa.Column("is_pinned", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_saved_view")),
        sa.UniqueConstraint("name", name=op.f("uq_saved_view_name")),
    )


def downgrade() -> None:
    op.drop_table("saved_view")
    op.drop_table("annotation")
