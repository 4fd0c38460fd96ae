"""The page of viser: the code that it runs, and a policy under which nothing else runs."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np

from qddot.display.markup import content_policy, element
from qddot.errors import UnsupportedVersion

__all__ = ["client_policy", "client_scripts", "other_viser", "require_viser", "secure_page"]

_HEAD, _TITLE = '<meta charset="utf-8" />', "<title>Viser</title>"
_DIGITS = "".join(chr(c) for c in range(0x21, 0x7F) if chr(c) not in "\"&<>'`")
"""Digits of the number in base 88 by which viser packs its code, five for four bytes."""
_MOST_CODE = 64 * 2**20


def other_viser(reason: str) -> UnsupportedVersion:
    """The error for a viser that is not as qddot relies on it to be."""
    return UnsupportedVersion("viser", reason, "pip install 'viser>=1.1.1,<1.2'")


def require_viser() -> None:
    """Refuse versions of viser that qddot was never tested with."""
    import viser

    if viser.__version__.split(".")[:2] != ["1", "1"]:
        raise other_viser(f"it is {viser.__version__}")


class _Scripts(HTMLParser):
    """Attributes and code of the scripts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[dict[str, str | None], str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a script."""
        if tag == "script":
            self.found.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        """Take the code of the last script."""
        if self.cdata_elem == "script":
            self.found[-1] = (self.found[-1][0], self.found[-1][1] + data)


def client_scripts(page: str) -> list[str]:
    """Code of all scripts that a page of viser runs: those in it, and the packed one."""
    import zstandard

    reader = _Scripts()
    reader.feed(page)
    reader.close()
    codes = [code for _, code in reader.found]
    packed = [facts for facts, _ in reader.found if facts.get("data-p")]
    try:
        (facts,) = packed
        content = zstandard.ZstdDecompressor().decompress(
            _unpack(str(facts["data-p"])), max_output_size=_MOST_CODE
        )
        start, size = int(str(facts["data-ss"])), int(str(facts["data-cs"]))
        if size <= 0 or start + size != len(content):
            raise ValueError("sizes differ")
        codes.append(content[start:].decode("utf-8"))
    except (KeyError, ValueError, zstandard.ZstdError) as error:
        raise other_viser("its page has no code that qddot can find") from error
    return codes


def _unpack(text: str) -> bytes:
    """Bytes of a text of digits in base 88; a last group of k digits has k − 1 bytes."""
    values = np.full(128, -1)
    values[[ord(c) for c in _DIGITS]] = np.arange(len(_DIGITS))
    digits = values[np.frombuffer(text.encode("ascii"), np.uint8)]
    if (digits < 0).any():
        raise ValueError("not digits of base 88")
    whole, rest = divmod(len(digits), 5)
    groups = digits[: 5 * whole].reshape(whole, 5) @ (88 ** np.arange(4, -1, -1))
    last = int(sum(int(d) * 88**k for k, d in enumerate(reversed(digits[5 * whole :]))))
    end = last.to_bytes(rest - 1, "big") if rest else b""
    return groups.astype(">u4").tobytes() + end


def client_policy(page: str, **more: str) -> str:
    """The Content-Security-Policy of a page of viser: its own code, which has workers and WASM."""
    return content_policy(
        client_scripts(page),
        script_src="'wasm-unsafe-eval'",
        worker_src="blob: data:",
        connect_src=" ".join(filter(None, ("data: blob:", more.pop("connect_src", "")))),
        font_src="data:",
        **more,
    )


def secure_page(page: str, title: str) -> str:
    """A page of viser with a title and its policy."""
    for part in (_HEAD, _TITLE):
        if page.count(part) != 1:
            raise other_viser(f"its page has no {part}")
    policy = element("meta", http_equiv="Content-Security-Policy", content=client_policy(page))
    page = page.replace(_TITLE, str(element("title", title)))
    return page.replace(_HEAD, f"{_HEAD}{policy}", 1)
