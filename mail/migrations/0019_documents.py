"""Attachments that are read."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0018_rule_proposals'),
        ('tenants', '0010_audit_erasure'),
    ]

    operations = [
        migrations.CreateModel(
            name='Document',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('status', models.CharField(choices=[('waiting', 'Waiting to be fetched'), ('fetched', 'Fetched'), ('scanned', 'Scanned'), ('read', 'Read'), ('unreadable', 'Unreadable'), ('infected', 'Infected'), ('skipped', 'Left alone')], default='waiting', max_length=10)),
                ('reason', models.CharField(blank=True, choices=[('', ''), ('switched_off', 'Attachments are not read here'), ('too_large', 'It is too large'), ('gone', 'It is no longer in Gmail'), ('infected', 'It is infected'), ('not_scannable', 'The malware scanner does not take it'), ('wrong_type', 'It is not what its name says'), ('encrypted', 'It is encrypted'), ('macros', 'It contains macros'), ('damaged', 'It is damaged'), ('unpacks_too_large', 'It unpacks to too much'), ('memory', 'Reading it takes too much memory'), ('time', 'Reading it takes too long'), ('died', 'Reading it ended the process that read it'), ('no_text', 'It has no text'), ('cut', 'Only its beginning was read'), ('erased', 'It mentions a person who was erased'), ('imported', 'It was imported without its content')], default='', help_text='Why it was not read, or not whole.', max_length=20)),
                ('scan', models.CharField(blank=True, choices=[('', 'Not yet scanned'), ('clean', 'Clean'), ('infected', 'Infected'), ('not_scanned', 'Not scanned: there is no scanner')], default='', max_length=15)),
                ('malware', models.CharField(blank=True, default='', help_text='What the scanner found.', max_length=200)),
                ('detected_type', models.CharField(blank=True, default='', help_text='By its content.', max_length=20)),
                ('size', models.PositiveBigIntegerField(default=0, help_text='Bytes that were fetched.')),
                ('sha256', models.CharField(blank=True, default='', max_length=64)),
                ('content', models.BinaryField(blank=True, help_text='Dropped as soon as it was read, or cannot be.', null=True)),
                ('text', models.TextField(blank=True, default='', help_text='What it says.')),
                ('job_id', models.UUIDField(blank=True, help_text='The job of the next step, or the last.', null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('fetched_at', models.DateTimeField(blank=True, null=True)),
                ('scanned_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, help_text='When the last step was done.', null=True)),
                ('account', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='mail.mailaccount')),
                ('attachment', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='documents', to='mail.attachment')),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
                ('message', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='documents', to='mail.message')),
            ],
            options={
                'indexes': [models.Index(fields=['message', 'firm'], name='document_of_message'), models.Index(fields=['firm', 'id'], name='document_newest')],
                'constraints': [models.UniqueConstraint(fields=('attachment', 'firm'), name='document_once'), models.CheckConstraint(condition=models.Q(('scan__in', ['', 'clean', 'infected', 'not_scanned']), ('status__in', ['waiting', 'fetched', 'scanned', 'read', 'unreadable', 'infected', 'skipped'])), name='document_known')],
            },
        ),
        protect("mail", "Document"),
    ]
