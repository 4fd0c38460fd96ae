"""Signatures of records by OpenSSH, and the forgery that only a signature shows."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
from typer.testing import CliRunner

from qddot.cli import app
from qddot.errors import CannotWrite, RecordError
from qddot.evidence import Recorder, Run, read_record, verify_record
from qddot.evidence.signature import check_signature, sign_record

needs_ssh = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None,
    reason="ssh-keygen is not installed (openssh-client): signatures are not tested",
)


def write(file, top=1.0):
    with Recorder(file, Run("test")) as r:
        r.trace("motion", {"q": top * np.arange(5.0)})
        r.metric("reach", "largest_magnitude", "motion.q")
        r.claim("reach", "q against five", metric="reach", relation="<", bound=5.0)
    return file


def make_key(folder, name):
    """A key, and an allowed_signers file with it alone."""
    key = folder / name
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)]
    subprocess.run(words, check=True)
    signers = folder / f"{name}.signers"
    public = key.with_suffix(".pub").read_text()
    signers.write_text(f'{name}@example.org namespaces="qddot-record" {public}')
    return key, signers


@needs_ssh
def test_a_signature_shows_who_wrote_a_record(tmp_path):
    file = write(tmp_path / "run.mcap")
    (key, signers), (_, others) = make_key(tmp_path, "ada"), make_key(tmp_path, "eve")
    run = CliRunner().invoke
    assert run(app, ["evidence", "verify", str(file), "--signers", str(signers)]).exit_code == 1
    assert run(app, ["evidence", "sign", str(file), "--key", str(key)]).exit_code == 0
    good = run(app, ["evidence", "verify", str(file), "--signers", str(signers)])
    assert good.exit_code == 0, good.output
    assert "signed by ada@example.org" in good.output
    stranger = run(app, ["evidence", "verify", str(file), "--signers", str(others)])
    assert stranger.exit_code == 1
    assert "of nobody in" in stranger.output
    plain = run(app, ["evidence", "verify", str(file)]).output
    assert "who wrote it is not known" in plain
    with pytest.raises(CannotWrite, match="exists"):
        sign_record(file, read_record(file), key)


@needs_ssh
def test_only_a_signature_shows_a_record_that_was_written_anew(tmp_path):
    key, signers = make_key(tmp_path, "ada")
    file = write(tmp_path / "run.mcap")
    sign_record(file, read_record(file), key)
    file.unlink()
    # the forger has this library too: digests and chain are right
    forged = read_record(write(file, top=0.5))
    assert verify_record(forged) == []
    with pytest.raises(RecordError, match="the signature is not of this content"):
        check_signature(file, forged, signers)


@needs_ssh
def test_what_does_not_hold_is_not_signed(tmp_path):
    key, _ = make_key(tmp_path, "ada")
    file = tmp_path / "run.mcap"
    with Recorder(file, Run("test")) as r:
        r.close(finished=False)
    with pytest.raises(RecordError, match=r"not signed, .* did not come to its end"):
        sign_record(file, read_record(file), key)
    whole = write(tmp_path / "whole.mcap")
    with pytest.raises(RecordError, match="there is no key"):
        sign_record(whole, read_record(whole), tmp_path / "none")
    (tmp_path / "text").write_text("no key\n")
    with pytest.raises(RecordError, match="ssh-keygen does not sign"):
        sign_record(whole, read_record(whole), tmp_path / "text")


def test_without_ssh_keygen_the_error_names_it(tmp_path, monkeypatch):
    file = write(tmp_path / "run.mcap")
    (tmp_path / "key").write_text("")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(RecordError, match=r"ssh-keygen: it is not installed; .* openssh-client"):
        sign_record(file, read_record(file), tmp_path / "key")
