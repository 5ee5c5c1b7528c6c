"""Indexes by columns that refer to other mail: a row's deletion looks for what refers to it.

Without them PostgreSQL reads the whole table for each row that is deleted. Built beside the traffic
where the database can.
"""

from __future__ import annotations

from importlib import import_module

from django.db import migrations, models
from django.db.models import Q

AddIndexInPassing = import_module("jobs.migrations.0011_lanes").AddIndexInPassing

# The model, the columns of which the first is the reference, and the index's name.
INDEXES = (
    ("mailthread", ("classified_upto",), "thread_classified_upto"),
    ("action", ("decision",), "action_of_decision"),
    ("action", ("rule", "created_at"), "action_of_rule"),
    ("approval", ("action",), "approval_of_action"),
    ("approval", ("outbound",), "approval_of_outbound"),
    ("draft", ("llm_call",), "draft_of_llm_call"),
    ("draft", ("replaces",), "draft_replaces"),
)


class Migration(migrations.Migration):
    # An index is built in passing only outside a transaction.
    atomic = False

    dependencies = [
        ("mail", "0031_texts_say_what_they_are_about"),
        ("jobs", "0011_lanes"),
    ]

    operations = [
        AddIndexInPassing(
            model_name=model,
            index=models.Index(
                fields=list(fields),
                condition=Q(**{f"{fields[0]}__isnull": False}),
                name=name,
            ),
        )
        for model, fields, name in INDEXES
    ]
