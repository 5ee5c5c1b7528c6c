"""What holds work back: pauses, rates; and which jobs were let through."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0005_page_dead_letters_by_id"),
        ("tenants", "0007_limited_firms"),
    ]

    operations = [
        migrations.CreateModel(
            name='Pause',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('everywhere', models.BooleanField(default=False, help_text='Holds for every firm; the row itself belongs to the system firm.')),
                ('category', models.CharField(blank=True, choices=[('ingestion', 'ingestion'), ('sync', 'sync'), ('recurrence', 'recurrence'), ('orchestration', 'orchestration'), ('documents', 'documents'), ('notifications', 'notifications'), ('export', 'export'), ('maintenance', 'maintenance')], default='', help_text='Empty means every category.', max_length=20)),
                ('job_type', models.CharField(blank=True, default='', help_text='Empty means every type.', max_length=100)),
                ('reason', models.TextField()),
                ('paused_by', models.CharField(help_text='Who did it, as the audit log says.', max_length=200)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('until', models.DateTimeField(blank=True, help_text='When it ends by itself; empty means by hand.', null=True)),
            ],
        ),
        migrations.CreateModel(
            name='RateBucket',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('job_type', models.CharField(max_length=100)),
                ('tokens', models.FloatField()),
                ('granted', models.IntegerField(help_text='Jobs let through and not seen to have started, at the last look.')),
                ('refilled_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='RateLimit',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('everywhere', models.BooleanField(default=False, help_text='Holds for every firm; the row itself belongs to the system firm.')),
                ('job_type', models.CharField(max_length=100)),
                ('amount', models.PositiveIntegerField()),
                ('per_seconds', models.FloatField()),
                ('burst', models.PositiveIntegerField(help_text='Most that may start at once after a quiet time.')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
        ),
        migrations.RemoveIndex(
            model_name='jobqueue',
            name='job_waiting',
        ),
        migrations.AddField(
            model_name='jobqueue',
            name='admitted',
            field=models.BooleanField(db_default=False, default=False, help_text="Counted against its firm's cap and its type's rate; may start while those hold."),
        ),
        migrations.AddIndex(
            model_name='jobqueue',
            index=models.Index(models.F('firm'), models.Case(models.When(lock_key__isnull=True, then=models.Value('')), default='lock_key'), models.F('job_type'), models.F('priority'), models.F('scheduled_at'), models.F('job_id'), condition=models.Q(('waiting', True)), name='job_waiting'),
        ),
        migrations.AddIndex(
            model_name='jobqueue',
            index=models.Index(condition=models.Q(('admitted', True), ('ready', True)), fields=['firm', 'job_type'], name='job_admitted'),
        ),
        migrations.AddField(
            model_name='pause',
            name='firm',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm'),
        ),
        migrations.AddField(
            model_name='ratebucket',
            name='firm',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm'),
        ),
        migrations.AddField(
            model_name='ratelimit',
            name='firm',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm'),
        ),
        migrations.AddConstraint(
            model_name='pause',
            constraint=models.UniqueConstraint(fields=('firm', 'everywhere', 'category', 'job_type'), name='pause_once'),
        ),
        migrations.AddConstraint(
            model_name='ratebucket',
            constraint=models.UniqueConstraint(fields=('firm', 'job_type'), name='rate_bucket_once'),
        ),
        migrations.AddConstraint(
            model_name='ratelimit',
            constraint=models.UniqueConstraint(fields=('firm', 'everywhere', 'job_type'), name='rate_limit_once'),
        ),
        migrations.AddConstraint(
            model_name='ratelimit',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gt', 0), ('burst__gt', 0), ('per_seconds__gt', 0)), name='rate_limit_above_zero'),
        ),
        protect("jobs", "Pause", "RateLimit", "RateBucket", engine=True),
    ]
