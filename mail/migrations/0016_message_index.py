"""The search index of messages: tsvector with GIN on PostgreSQL, FTS5 on SQLite."""

import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect


# Functions of search are not leakproof: behind the policy firm_wall, no index would serve them. So
# the search is a policy itself, which PostgreSQL checks first: it narrows what firm_wall lets
# through to what the transaction's setting `mailroom.search` finds; without one, to everything.
POSTGRESQL = (
    "ALTER TABLE mail_messageindex ADD COLUMN vector tsvector"
    " GENERATED ALWAYS AS (array_to_tsvector(string_to_array(words, ' '))) STORED",
    "CREATE INDEX message_index_words ON mail_messageindex USING gin (vector)",
    "CREATE POLICY search_filter ON mail_messageindex AS RESTRICTIVE FOR SELECT USING (vector @@"
    " coalesce(nullif(current_setting('mailroom.search', true), ''), '!mailroom-none')::tsquery)",
)
# FTS5 wants integers that stay: a VACUUM may renumber the rows of a table with another key. Whatever
# makes the table mail_messageindex anew must make the triggers anew.
SQLITE = (
    "CREATE TABLE mail_search_row (number INTEGER PRIMARY KEY, index_id char(32) NOT NULL UNIQUE)",
    "CREATE VIRTUAL TABLE mail_search USING fts5(words, content='', detail=none,"
    " prefix='2 3', tokenize='unicode61 remove_diacritics 0')",
    "CREATE TRIGGER mail_search_added AFTER INSERT ON mail_messageindex BEGIN"
    " INSERT INTO mail_search_row (index_id) VALUES (new.id);"
    " INSERT INTO mail_search (rowid, words) SELECT number, new.words FROM mail_search_row"
    " WHERE index_id = new.id; END",
    "CREATE TRIGGER mail_search_changed AFTER UPDATE OF words ON mail_messageindex"
    " WHEN old.words <> new.words BEGIN"
    " INSERT INTO mail_search (mail_search, rowid, words) SELECT 'delete', number, old.words"
    " FROM mail_search_row WHERE index_id = old.id;"
    " INSERT INTO mail_search (rowid, words) SELECT number, new.words FROM mail_search_row"
    " WHERE index_id = new.id; END",
    "CREATE TRIGGER mail_search_deleted AFTER DELETE ON mail_messageindex BEGIN"
    " INSERT INTO mail_search (mail_search, rowid, words) SELECT 'delete', number, old.words"
    " FROM mail_search_row WHERE index_id = old.id;"
    " DELETE FROM mail_search_row WHERE index_id = old.id; END",
)
# The table itself goes after, with its columns, indexes, policies and triggers.
SQLITE_BACKWARDS = (
    "DROP TRIGGER mail_search_added",
    "DROP TRIGGER mail_search_changed",
    "DROP TRIGGER mail_search_deleted",
    "DROP TABLE mail_search",
    "DROP TABLE mail_search_row",
)


def add_search(_, schema_editor):
    is_sqlite = schema_editor.connection.vendor == "sqlite"
    for statement in SQLITE if is_sqlite else POSTGRESQL:
        schema_editor.execute(statement)


def remove_search(_, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        for statement in SQLITE_BACKWARDS:
            schema_editor.execute(statement)
    else:
        schema_editor.execute("DROP POLICY search_filter ON mail_messageindex")


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0015_drafts'),
        ('tenants', '0010_audit_erasure'),
    ]

    operations = [
        migrations.CreateModel(
            name='MessageIndex',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('received_at', models.DateTimeField(help_text="The message's own.")),
                ('words', models.TextField(blank=True, default='', help_text='In no order, by spaces.')),
                ('account', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='mail.mailaccount')),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
                ('message', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='search_index', to='mail.message')),
            ],
            options={
                'verbose_name': 'message index',
                'indexes': [models.Index(fields=['firm', '-received_at'], name='message_index_recent')],
                'constraints': [models.UniqueConstraint(fields=('message', 'firm'), name='message_index_once')],
            },
        ),
        protect("mail", "MessageIndex"),
        migrations.RunPython(add_search, remove_search),
    ]
