"""A web server of the tests' own, on loopback, and documents to serve.

Owns: `LocalWeb` and small PDF files and pictures. Must not know: what is tested with them.
"""

from __future__ import annotations

import ssl
import struct
import threading
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Asked(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Answer(NamedTuple):
    """What is sent back."""

    body: bytes = b""
    media_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = {}
    hang: bool = False
    """True: after the body nothing more comes, and the connection stays open."""


class LocalWeb:
    """What a server was asked and what it answers; the paths that are not set are 404."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[Asked] = []
        self.pages: dict[str, Answer | Callable[[Asked], Answer]] = {}
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        found = self.pages.get(asked.path.partition("?")[0], Answer(b"gone", status=404))
        return found(asked) if callable(found) else found


@contextmanager
def local_web(tls: ssl.SSLContext | None = None) -> Generator[LocalWeb, None, None]:
    """A server while the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            pass

        def do_GET(self) -> None:
            size = int(self.headers.get("content-length", 0))
            asked = Asked(self.command, self.path, dict(self.headers.items()), self.rfile.read(size))
            found = web.answer(asked)
            self.send_response_only(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.send_header("content-type", found.media_type)
            self.send_header("content-length", str(len(found.body) + found.hang))
            self.end_headers()
            try:
                self.wfile.write(found.body)
                self.wfile.flush()
            except OSError:
                return
            if found.hang:
                web.released.wait(20)

        do_POST = do_GET  # noqa: N815 - the name that the standard library wants

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    web = LocalWeb(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield web
    finally:
        web.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def png(width: int = 2, height: int = 3) -> bytes:
    """A picture with nothing to see."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0\0" * min(height, 10))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def pdf(*pages: str, stream: bytes | None = None) -> bytes:
    """A document with one line of text on each page; `stream`: packed content of all pages instead."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        content = stream if stream is not None else zlib.compress(f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode())
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {5 + 2 * number} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(
            f"<< /Length {len(content)} /Filter /FlateDecode >>\nstream\n".encode() + content + b"\nendstream"
        )
    out = b"%PDF-1.4\n"
    places: list[int] = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    start = len(out)
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode()
    return out + f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
