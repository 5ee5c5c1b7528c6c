"""One serializer a row: REST answers, the command line's JSON and the OpenAPI schema share it."""
