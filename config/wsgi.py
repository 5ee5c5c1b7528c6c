"""The WSGI entry point."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

from config import embedded_worker
from config.start import check_rls, load_pages

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
application = get_wsgi_application()
load_pages()
check_rls()
embedded_worker.start()
