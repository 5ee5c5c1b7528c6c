"""`RequestCount`: a caller's requests in the current minute."""

from __future__ import annotations

from django.db import models


class RequestCount(models.Model):
    """One caller's requests in one minute; a new minute overwrites the one before."""

    caller = models.CharField(max_length=80, primary_key=True)
    minute = models.BigIntegerField(help_text="Minutes since 1970, by the database's clock.")
    asked = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.caller}: {self.asked}"
