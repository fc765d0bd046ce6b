"""TLS between server, ranks and ``sonde ctl``: which certificate to present, and which to trust.

A client trusts a certificate that a given file of authorities has signed, or exactly the one with a
given fingerprint. The fingerprint is what programs of the same user use: it is kept in the file by
which they find the server, so that a self-signed certificate needs no further setting.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sonde.core.errors import SondeError, UsageError

SYSTEM: Final = "system"
"""As the file of authorities: those that the system trusts."""
_CHUNK: Final = 1 << 18


class CertificateError(SondeError):
    """The other side does not speak TLS, or has a certificate that is not trusted."""

    def __init__(self, message: str) -> None:
        super().__init__(message, slug="tls")


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """The files of the server's certificate and private key; the key may be in the first file."""

    certificate: str
    key: str = ""

    def context(self) -> ssl.SSLContext:
        """Raises UsageError if the files cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # Without a password function OpenSSL would ask at the terminal for that of the key.
            context.load_cert_chain(self.certificate, self.key or None, password=lambda: "")
        except (OSError, ValueError) as error:
            raise self._unusable(error) from None
        return context

    def fingerprint(self) -> str:
        """SHA-256 of the certificate, in hexadecimal digits."""
        try:
            with open(self.certificate, encoding="ascii") as file:
                text = file.read(1 << 20)
            start = text.index("-----BEGIN CERTIFICATE-----")
            end = text.index("-----END CERTIFICATE-----")
            found = ssl.PEM_cert_to_DER_cert(f"{text[start:end]}-----END CERTIFICATE-----\n")
        except (OSError, ValueError) as error:
            raise self._unusable(error) from None
        return hashlib.sha256(found).hexdigest()

    def _unusable(self, error: Exception) -> UsageError:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)
        files = f"{self.certificate!r}" + (f" and {self.key!r}" if self.key else "")
        return UsageError(
            f"cannot use the certificate and key in {files}: {reason}; --certfile and --keyfile "
            "need PEM files, the key without a password",
            slug="tls",
        )


def server_certificate(certfile: str, keyfile: str) -> ServerCertificate | None:
    """The certificate of the options, None without one; UsageError for a key alone."""
    if keyfile and not certfile:
        raise UsageError("--keyfile needs --certfile", slug="tls")
    return ServerCertificate(certfile, keyfile) if certfile else None


@dataclass(frozen=True, slots=True)
class Trust:
    """The certificates that a client accepts: the one with ``fingerprint``, or those that an
    authority in the file ``authorities`` has signed for the host."""

    fingerprint: str = ""
    authorities: str = SYSTEM

    def context(self) -> ssl.SSLContext:
        """Raises CertificateError if the file of authorities cannot be read."""
        try:
            file = None if self.authorities == SYSTEM else self.authorities
            context = ssl.create_default_context(cafile=file)
        except (OSError, ValueError) as error:
            raise CertificateError(
                f"cannot read the authorities in {self.authorities!r}: {error}"
            ) from None
        if self.fingerprint:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE  # ``check`` compares the certificate instead.
        return context

    def check(self, certificate: bytes | None) -> None:
        """CertificateError unless the DER certificate is the one with the fingerprint."""
        if not self.fingerprint:
            return
        found = hashlib.sha256(certificate or b"").hexdigest()
        if not hmac.compare_digest(found, self.fingerprint):
            raise CertificateError(
                "its certificate is not the expected one: another program may listen there, or the "
                "server was restarted with another certificate"
            )

    def connect(self, plain: socket.socket, host: str) -> TlsConnection:
        """Speak TLS on a connected socket; CertificateError if its certificate is not trusted."""
        try:
            connection = TlsConnection(plain, self.context(), host)
        except ssl.SSLCertVerificationError as error:
            raise CertificateError(
                f"its certificate is not trusted: {error.verify_message}; name the file of its "
                "authority with SONDE_DEBUGGER_CA"
            ) from None
        except ssl.SSLError as error:
            raise CertificateError(f"it does not speak TLS ({error.reason})") from None
        self.check(connection.certificate)
        return connection


def trust_from_environment(environ: Mapping[str, str]) -> Trust | None:
    """What ``SONDE_DEBUGGER_FINGERPRINT`` or ``SONDE_DEBUGGER_CA`` says; None: no TLS."""
    fingerprint = environ.get("SONDE_DEBUGGER_FINGERPRINT", "").replace(":", "").lower()
    authorities = environ.get("SONDE_DEBUGGER_CA", "")
    if not fingerprint and not authorities:
        return None
    return Trust(fingerprint, authorities or SYSTEM)


class TlsConnection:
    """A socket with TLS that one thread may read while others write.

    Python's own ``SSLSocket`` does not allow that before 3.13. Reading waits for bytes without the
    lock; ``select.poll`` on it is right, because ``recv`` returns all bytes that are decrypted.
    """

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self._plain = plain
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._lock = threading.Lock()
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._send_waiting()
                data = plain.recv(_CHUNK)
                if not data:
                    raise ConnectionError("the server closed the connection") from None
                self._incoming.write(data)
            except ssl.SSLError:
                self._send_waiting()  # The alert that says why.
                raise
        self._send_waiting()

    @property
    def certificate(self) -> bytes | None:
        return self._tls.getpeercert(binary_form=True)

    def _send_waiting(self) -> None:
        if self._outgoing.pending:
            self._plain.sendall(self._outgoing.read())

    def sendall(self, data: bytes | bytearray) -> None:
        with self._lock:
            if data:
                self._tls.write(data)
            self._send_waiting()

    def recv(self, most: int) -> bytes:
        """All bytes that have arrived, possibly more than ``most``; empty at the end."""
        while True:
            found = self._decrypted()
            if found:
                return found
            data = self._plain.recv(most)
            if not data:
                return b""
            with self._lock:
                self._incoming.write(data)

    def _decrypted(self) -> bytes:
        found: list[bytes] = []
        with self._lock:
            try:
                while data := self._tls.read(_CHUNK):
                    found.append(data)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLZeroReturnError:
                self._plain.shutdown(socket.SHUT_RD)
            self._send_waiting()
        return b"".join(found)

    def fileno(self) -> int:
        return self._plain.fileno()

    def settimeout(self, seconds: float | None) -> None:
        self._plain.settimeout(seconds)

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        self._plain.setsockopt(level, option, value)

    def shutdown(self, how: int) -> None:
        self._plain.shutdown(how)

    def close(self) -> None:
        self._plain.close()


Connection = socket.socket | TlsConnection
