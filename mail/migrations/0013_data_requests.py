"""Exports, erasures, and the lists of whom was erased."""

import django.db.models.deletion
import django.db.models.functions.datetime
import tenants.encryption
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0012_approvals'),
        ('tenants', '0009_audit_outlives_firms'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='DataRequest',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('firm_export', 'Export of the firm'), ('gdpr_export', "Export of a person's data"), ('erase_subject', 'Erasure of a person')], max_length=20)),
                ('status', models.CharField(choices=[('running', 'Running'), ('ready', 'Ready'), ('done', 'Done'), ('expired', 'Expired'), ('failed', 'Failed')], default='running', max_length=10)),
                ('about_firm_id', models.BigIntegerField(help_text='The firm whose data it is about.')),
                ('about_firm', models.CharField(help_text='Its slug.', max_length=50)),
                ('subject', tenants.encryption.EncryptedTextField(blank=True, default='', help_text="The person's address; empty once it is erased.")),
                ('reason', models.TextField(blank=True, default='')),
                ('requested_by_name', models.CharField(help_text='As the audit log says it.', max_length=200)),
                ('position', models.JSONField(blank=True, default=dict, help_text='{stage, after}: up to where the job has done it.')),
                ('parts', models.PositiveIntegerField(default=0, help_text='Stored parts of the zip.')),
                ('counts', models.JSONField(blank=True, default=dict, help_text='Rows by table.')),
                ('job_id', models.UUIDField(blank=True, help_text='The job that does it.', null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('expires_at', models.DateTimeField(blank=True, help_text='When the zip is deleted.', null=True)),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
                ('requested_by', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'data request',
            },
        ),
        migrations.CreateModel(
            name='ExportPart',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('name', models.CharField(blank=True, help_text='Empty: the bytes are a zip of files.', max_length=200)),
                ('content', models.BinaryField()),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
                ('request', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='stored_parts', to='mail.datarequest')),
            ],
            options={
                'verbose_name': 'export part',
            },
        ),
        migrations.CreateModel(
            name='SuppressionList',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('key', tenants.encryption.EncryptedTextField(help_text='The key of the hashes; encrypted.')),
                ('digests', models.JSONField(blank=True, default=list)),
                ('changed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
            ],
            options={
                'verbose_name': 'suppression list',
            },
        ),
        migrations.AddIndex(
            model_name='datarequest',
            index=models.Index(fields=['firm', 'id'], name='data_request_newest'),
        ),
        migrations.AddIndex(
            model_name='datarequest',
            index=models.Index(condition=models.Q(('expires_at__isnull', False), ('status', 'ready')), fields=['expires_at'], name='data_request_expiry'),
        ),
        migrations.AddConstraint(
            model_name='datarequest',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['firm_export', 'gdpr_export', 'erase_subject']), ('status__in', ['running', 'ready', 'done', 'expired', 'failed'])), name='data_request_known'),
        ),
        migrations.AddConstraint(
            model_name='exportpart',
            constraint=models.UniqueConstraint(fields=('firm', 'request', 'number'), name='export_part_once'),
        ),
        migrations.AddConstraint(
            model_name='suppressionlist',
            constraint=models.UniqueConstraint(fields=('firm',), name='suppression_list_once'),
        ),
        protect("mail", "DataRequest", "ExportPart", "SuppressionList"),
    ]
