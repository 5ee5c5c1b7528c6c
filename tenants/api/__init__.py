"""What every REST resource stands on: who asks, in which scope, and how a refusal looks."""

API_PREFIX = "/api/"
