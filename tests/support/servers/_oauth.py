"""A token server of OAuth 2.0, as small as can be: client credentials for signed tokens."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


class Issuer:
    """Signs tokens; whoever has its `keys`, a JSON Web Key Set, can tell that they are its own."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def keys(self) -> str:
        """The public keys, as JSON."""
        numbers = self._key.public_key().public_numbers()
        n, e = (_text(x.to_bytes((x.bit_length() + 7) // 8, "big")) for x in (numbers.n, numbers.e))
        return json.dumps({"keys": [{"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", "n": n, "e": e}]})

    def token(self, subject: str, scope: str) -> str:
        """Return a token for an hour."""
        now = int(time.time())
        claims = {"sub": subject, "scope": scope, "iat": now, "exp": now + 3600, "iss": "issuer"}
        parts = [_text(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "one", "typ": "JWT"}, claims)]
        signed = self._key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
        return ".".join([*parts, _text(signed)])


class TokenServer:
    """Gives tokens at `url` to `client` with `secret`; `asked` has the forms of all requests."""

    client, secret = "tidecast", 'a"secret\\'

    def __init__(self, issuer: Issuer, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[dict[str, list[str]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
                server.asked.append(form)
                known = "Basic " + base64.b64encode(f"{server.client}:{server.secret}".encode()).decode()
                answer: dict[str, Any] = {"error": "invalid_client"}
                good = self.headers.get("Authorization") == known and form.get("grant_type") == ["client_credentials"]
                if good:
                    token = issuer.token(server.client, form.get("scope", ["kafka"])[0])
                    answer = {"access_token": token, "token_type": "Bearer", "expires_in": 3600}
                body = json.dumps(answer).encode()
                self.send_response(200 if good else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._server.server_address[1]}/token"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
