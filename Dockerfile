# One image for web and worker. From the project's folder: docker build -t mailroom .
FROM python:3.11-slim-bookworm AS build
RUN python -m venv /venv
COPY requirements/runtime.txt /requirements.txt
# Compiled by content: the time of a file may differ in the layer it is copied to.
RUN /venv/bin/pip install --no-cache-dir --no-compile --require-hashes -r /requirements.txt \
    && /venv/bin/python -m compileall -q --invalidation-mode unchecked-hash /venv/lib

FROM python:3.11-slim-bookworm
RUN useradd --system --uid 10001 --no-create-home --home-dir /app mailroom \
    && install --directory --owner mailroom /data
COPY --from=build /venv /venv
WORKDIR /app
COPY manage.py ./
COPY config config
COPY interfaces interfaces
COPY jobs jobs
COPY mail mail
COPY templates templates
COPY tenants tenants
# The user below may not write here, and this image's Python comes without what it compiled. An image
# that is made of this one may have other files of ours.
RUN python -m compileall -q --invalidation-mode unchecked-hash /usr/local/lib/python3.11 \
    && python -m compileall -q --invalidation-mode checked-hash .
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    LOG_FORMAT=json \
    VAR_DIR=/data
USER mailroom
VOLUME /data
EXPOSE 8000
# Shell form would swallow the signal that stops it.
CMD ["gunicorn", "config.wsgi", "--bind", "0.0.0.0:8000", "--workers", "2", "--threads", "4"]
