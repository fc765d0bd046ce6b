"""Self-signed certificates for tests."""

import subprocess
from pathlib import Path

from sonde.wire.tls import ServerCertificate


def self_signed(folder: Path, name: str = "127.0.0.1") -> ServerCertificate:
    """A new certificate for ``name``, which is an address."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subject = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{name}"]
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-keyout", str(key), "-out", str(certificate), *subject),
        ],
        check=True,
        capture_output=True,
    )
    return ServerCertificate(str(certificate), str(key))
