"""optuna-dashboard on a store: an address in the first line, Ctrl-C to end it."""

from __future__ import annotations

import errno
import json
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterable
from http import HTTPStatus
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from tuner.cli.support.folding import echo
from tuner.errors import UsageError
from tuner.storage import DEFAULT_URL, Store

Start = Callable[..., Any]
Application = Callable[[dict[str, Any], Start], Iterable[bytes]]
_KEPT = "deleting or renaming here would take the measurements with it; tuner serves its studies to look at"


def serve(
    store_url: str | Path = DEFAULT_URL, host: str = "127.0.0.1", port: int | None = None, open_browser: bool = False
) -> None:
    """Serve the store's studies until Ctrl-C, at the server's own root.

    Args:
        host: The address to serve on; other computers reach it only if this allows it. There is no password.
        port: A free one when None.

    Raises:
        UsageError: No such store, or the address cannot be used; one line.
    """
    with Store.open(store_url, create=False) as store:
        server = _server(host, port or 0, _application(store))
        try:
            address = f"http://{_shown(host)}:{server.server_port}/"
            echo(f"dashboard of {store} at {address}  (Ctrl-C ends it)")
            if open_browser:
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
            server.serve_forever()
        except KeyboardInterrupt:
            print()
        finally:
            server.server_close()


def _application(store: Store) -> Application:
    from optuna_dashboard import wsgi

    dashboard: Application = wsgi(store.optuna_storage())

    def guarded(environment: dict[str, Any], start: Start) -> Iterable[bytes]:
        return _refuse(start) if _would_delete(environment) else dashboard(environment, start)

    return guarded


def _would_delete(environment: dict[str, Any]) -> bool:
    """Tell whether a request deletes a study; the dashboard renames one by copying and deleting it."""
    path = str(environment.get("PATH_INFO", "")).rstrip("/")
    method = environment.get("REQUEST_METHOD")
    return path.startswith("/api/studies/") and (method == "DELETE" or (method == "POST" and path.endswith("/rename")))


def _refuse(start: Start) -> Iterable[bytes]:
    status = HTTPStatus.FORBIDDEN
    start(f"{status.value} {status.phrase}", [("Content-Type", "application/json")])
    return [json.dumps({"reason": _KEPT}).encode()]


class _Server(ThreadingMixIn, WSGIServer):
    """One thread a request: pages make several requests at once, and a big study takes a while."""

    daemon_threads = True

    def server_bind(self) -> None:
        """Bind without a DNS lookup of this computer's name, which can take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that disconnected; print a traceback for anything else."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Server6(_Server):
    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        """Print no line per request."""


def _server(host: str, port: int, application: Application) -> WSGIServer:
    try:
        kind = _Server6 if ":" in host else _Server
        return make_server(host, port, application, server_class=kind, handler_class=_QuietHandler)
    except OverflowError:
        raise UsageError(
            f"dashboard: port {port} is not between 1 and 65535; leave --port out for a free one"
        ) from None
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        if taken:
            why = "is taken; leave --port out for a free one"
        else:
            why = f"cannot be had ({error.strerror}); give an address of this machine, such as --host 127.0.0.1"
        raise UsageError(f"dashboard: {_shown(host)} port {port} {why}") from None


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
