"""Notification endpoints and deliveries. Select the firm with the rows."""

from __future__ import annotations

from rest_framework import serializers

from jobs.models import Delivery
from jobs.queries.serializers.fields import EnumField, NullableTextField, TimestampField, help_of
from jobs.queries.serializers.limits import FirmOrEverySerializer
from jobs.states import Channel, DeliveryStatus


class EndpointSerializer(FirmOrEverySerializer):
    """An address that events are sent to."""

    name = serializers.CharField()
    channel = EnumField(Channel, help_text="How notifications are sent.")
    recipient = serializers.CharField(
        help_text="The e-mail address; of a URL only scheme and host, because the rest may hold a "
        "secret."
    )
    events = serializers.ListField(
        child=serializers.CharField(), help_text="The events that the endpoint gets."
    )
    enabled = serializers.BooleanField(help_text="Whether notifications are sent to the endpoint.")
    created_at = TimestampField()


class SigningKeySerializer(serializers.Serializer[str]):
    """What an endpoint's webhooks are signed with."""

    signing_key = serializers.CharField(
        source="*",
        help_text="whsec_ and the key in base64, as libraries for Standard Webhooks take it.",
    )


class DeliverySerializer(serializers.Serializer[object]):
    """One attempt to send an e-mail or a webhook."""

    id = serializers.UUIDField()
    firm = serializers.CharField(source="firm.slug", help_text="The firm's slug.")
    endpoint_id = serializers.UUIDField(
        allow_null=True,
        help_text="The endpoint, which may have been removed; null for plain e-mails.",
    )
    channel = EnumField(Channel, help_text="How the notification was sent.")
    event = NullableTextField("What it was about.")
    recipient = serializers.CharField(help_text=help_of(Delivery, "recipient"))
    job_id = serializers.UUIDField(help_text=help_of(Delivery, "job_id"))
    attempt = serializers.IntegerField(help_text="The number of the job's attempt.")
    status = EnumField(
        DeliveryStatus, help_text="How the attempt ended; a failed one is tried again by its job."
    )
    status_code = serializers.IntegerField(
        allow_null=True, help_text=help_of(Delivery, "status_code")
    )
    error = NullableTextField(help_of(Delivery, "error"))
    started_at = TimestampField()
    finished_at = TimestampField("Null while the attempt lasts, or if its worker died.")
