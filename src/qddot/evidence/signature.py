"""Signatures of records, made and checked by OpenSSH's `ssh-keygen -Y`.

A signature is a file of its own, NAME.sig: the record stays as it was written, several people can
sign it, and `ssh-keygen` alone can check it. It covers the head of the hash chain, and so all
messages and inputs.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from qddot.errors import RecordError
from qddot.evidence.record import Record
from qddot.evidence.review import verify_record
from qddot.evidence.scan import open_regular
from qddot.evidence.schema import PROFILE
from qddot.files import write_whole

__all__ = ["NAMESPACE", "check_signature", "sign_record", "signature_beside", "signed_text"]

NAMESPACE = "qddot-record"
"""The namespace of `ssh-keygen -Y`: a signature of another purpose is none of a record."""
_MOST_BYTES = 100_000
_LONGEST = 60


def signature_beside(file: str | Path) -> Path:
    """Where the signature of a record lies."""
    return Path(f"{file}.sig")


def signed_text(record: Record) -> str:
    """The text that is signed: layout, head of the hash chain, digest of the results."""
    return f"{PROFILE}\nchain {record.chain}\ndigest {record.digest}\n"


def sign_record(file: str | Path, record: Record, key: str | Path, force: bool = False) -> Path:
    """Sign a record with an SSH key; the file of the signature.

    Refused is a record in which something does not hold. A key with a passphrase asks for it on the
    terminal, and the name of a public key stands for one in the user's agent.
    """
    if problems := verify_record(record):
        first = problems[0]
        reason = f"it is not signed, as something does not hold: {first.subject}: {first.message}"
        raise RecordError(file, reason)
    if not Path(key).is_file():
        raise RecordError(file, f"there is no key {key}; `ssh-keygen -t ed25519` makes one")
    done = _run(["-Y", "sign", "-q", "-n", NAMESPACE, "-f", str(key)], signed_text(record))
    if done.returncode or not done.stdout.startswith("-----BEGIN SSH SIGNATURE-----"):
        raise RecordError(file, f"ssh-keygen does not sign with {key}: {_last_line(done)}")
    return write_whole(signature_beside(file), done.stdout, force)


def check_signature(file: str | Path, record: Record, signers: str | Path) -> str:
    """The signer of a record, one of those that an allowed-signers file of OpenSSH lists.

    RecordError where the signature is missing, of somebody else, or of another content.
    """
    signature = signature_beside(file)
    if not signature.is_file():
        reason = f"there is no signature {signature}; `qddot evidence sign` makes one"
        raise RecordError(file, reason)
    with open_regular(signature) as (_, size):
        if size > _MOST_BYTES:
            raise RecordError(signature, "it is too large for a signature")
    with open_regular(signers) as (_, size):
        if size > _MOST_BYTES:
            raise RecordError(signers, "it is too large for a list of signers")
    given = ["-s", str(signature), "-f", str(signers)]
    found = _run(["-Y", "find-principals", *given], "")
    names = found.stdout.splitlines()
    if found.returncode or not names:
        raise RecordError(file, f"its signature is of nobody in {signers}")
    done = _run(["-Y", "verify", "-n", NAMESPACE, "-I", names[0], *given], signed_text(record))
    if done.returncode:
        raise RecordError(file, f"the signature is not of this content: {_last_line(done)}")
    return names[0]


def _run(words: list[str], text: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("ssh-keygen")
    if program is None:
        reason = "it is not installed; signatures need OpenSSH, the package openssh-client"
        raise RecordError("ssh-keygen", reason)
    try:
        return subprocess.run(
            [program, *words], input=text, capture_output=True, text=True, timeout=_LONGEST
        )
    except subprocess.TimeoutExpired as error:
        raise RecordError("ssh-keygen", f"no answer within {_LONGEST} s") from error


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"
