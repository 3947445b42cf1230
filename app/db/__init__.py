"""The database: connections, tables, migrations, and the queries of each table. No query commits."""
