"""`endpoints/` and `deliveries/`: who is notified, and what was sent."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from jobs.api.limits import LimitView
from jobs.api.query import DeliveryQuery
from jobs.api.requests import ChangeEndpointBody, EndpointBody
from jobs.api.views import QueueView, example, list_operation, row_operation, show_operation
from jobs.models import Delivery, NotificationEndpoint
from jobs.operations import endpoints
from jobs.queries.filters import filter_deliveries
from jobs.queries.serializers.fields import EnumField, NullableTextField, TimestampField, help_of
from jobs.queries.serializers.limits import FirmOrEverySerializer
from jobs.states import Channel, DeliveryStatus
from tenants.models import Role


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


_ENDPOINT = OpenApiResponse(EndpointSerializer, "The endpoint as it is now.")


class Endpoints(LimitView):
    """The notification endpoints of the caller's firms, and for staff those of the platform."""

    resource, tag = "endpoints", "notifications"
    model, serializer = NotificationEndpoint, EndpointSerializer

    list = list_operation(
        "List notification endpoints",
        "The latest first. Endpoints for every firm are only listed for platform staff.",
        serializer=EndpointSerializer,
        rows="endpoints",
    )
    show = show_operation(
        "Show a notification endpoint",
        "The signing key is not shown.",
        answer=OpenApiResponse(EndpointSerializer, "The endpoint."),
    )
    change = row_operation(
        endpoints.change_endpoint,
        "Change a notification endpoint",
        "Changes the given fields. Notifications that are waiting go to the new target; those to "
        "a disabled endpoint are canceled. Needs the role admin; an endpoint for every firm is "
        "only for platform staff.",
        role=Role.ADMIN,
        body=ChangeEndpointBody,
        answer=_ENDPOINT,
        example=example("Disable", enabled=False),
    )
    remove = row_operation(
        endpoints.remove_endpoint,
        "Remove a notification endpoint",
        "The endpoint gets no more notifications; those waiting are canceled. Its deliveries stay "
        "listed. Needs the role admin; an endpoint for every firm is only for platform staff.",
        role=Role.ADMIN,
        answer=OpenApiResponse(EndpointSerializer, "The endpoint as it was before."),
        example=example("Remove", reason="The pager was replaced"),
    )
    rotate_key = row_operation(
        endpoints.rotate_signing_key,
        "Rotate the signing key",
        "A new key signs all webhooks from now on, also those that are waiting to be sent; read "
        "it at `signing-key/`. Needs the role admin; an endpoint for every firm is only for "
        "platform staff.",
        role=Role.ADMIN,
        answer=_ENDPOINT,
        example=example("Rotate", reason="The old key was in a log"),
    )
    test = row_operation(
        endpoints.send_test,
        "Send a test notification",
        "The notification's delivery shows whether it arrived. 409 if the endpoint is disabled. "
        "Needs the role operator; an endpoint for every firm is only for platform staff.",
        answer=_ENDPOINT,
        example=example("Test", reason="It was moved"),
    )

    @operation(
        "Show the signing key",
        "The key that signs the endpoint's webhooks. The audit log records who read it. Needs the "
        "role admin; an endpoint for every firm is only for platform staff.",
        answers={HTTPStatus.OK: OpenApiResponse(SigningKeySerializer, "The key.")},
    )
    def signing_key(self, _: Request, pk: UUID) -> Response:
        key = endpoints.show_signing_key(self.get_object(Role.ADMIN), by=self.actor)
        return Response(SigningKeySerializer(key).data)

    @operation(
        "Create a notification endpoint",
        "The endpoint's signing key is generated; read the key at `signing-key/`. Needs the role "
        "admin; an endpoint for every firm is only for platform staff.",
        body=EndpointBody,
        answers={HTTPStatus.CREATED: OpenApiResponse(EndpointSerializer, "The endpoint.")},
        example=example(
            "A webhook for alerts",
            name="On call",
            channel="webhook",
            target="https://hooks.harbour-toys.example/mailroom",
            events=["alert.new_failure", "alert.unreviewed"],
        ),
    )
    def create(self, request: Request) -> Response:
        body = self.get_body(EndpointBody)
        firm = self.pop_firm_or_every(body, Role.ADMIN)
        made = endpoints.create_endpoint(firm=firm, by=self.actor, **body)
        return Response(self.represent(made), HTTPStatus.CREATED)


class Deliveries(QueueView):
    """The deliveries of the caller's firms."""

    resource, tag = "deliveries", "notifications"
    model, serializer = Delivery, DeliverySerializer

    list = list_operation(
        "List deliveries",
        "Every attempt to send an e-mail or a webhook, the latest first. Kept as long as finished "
        "jobs. Filters are combined.",
        serializer=DeliverySerializer,
        rows="deliveries",
        query=DeliveryQuery,
    )

    def get_rows(self, **filters: Any) -> QuerySet[Delivery]:
        """Return the deliveries in scope that meet the filters."""
        return filter_deliveries(super().get_rows(), **filters)
