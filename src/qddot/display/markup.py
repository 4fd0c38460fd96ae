"""HTML and SVG built of elements: text and attributes are data, and no page runs other scripts.

`element` escapes all that it is given but other elements, so no text of a file or record becomes
markup. `page` forbids by a Content-Security-Policy all scripts but those whose code it has.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from qddot.errors import InvalidArgument

__all__ = ["Markup", "content_policy", "data_block", "element", "joined", "page", "script_hash"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_VOID = frozenset(("br", "hr", "img", "link", "meta"))
_RAW = frozenset(("script", "style"))
"""Elements whose content is code: only `page` and `data_block` make them."""
_ADDRESSES = frozenset(("action", "formaction", "href", "src", "srcdoc"))
_OWN = re.compile(r"#|data:,|http://[^/@]+:[0-9]+/[A-Za-z0-9_-]+/$")
_PLACE = "a place of the page, such as #name, or the address of a view"
_ENDS_CODE = re.compile(r"</(?:script|style)|<!--", re.IGNORECASE)
_NONE = "'none'"


@dataclass(frozen=True)
class Markup:
    """HTML in which all data is escaped; `element`, `joined`, `data_block` and `page` make it."""

    text: str

    def __str__(self) -> str:
        return self.text


def element(tag: str, *children: Any, **attributes: Any) -> Markup:
    """An element with children and attributes.

    Args:
        tag: Name of the element.
        *children: Markup stays; iterables are laid out flat; None is left out; the rest is text.
        **attributes: A trailing underscore is dropped, other underscores are hyphens. None and
            False leave an attribute out, True gives it no value. An `href` is a place of the page.
    """
    _check_tag(tag)
    written = "".join(
        [_attribute(name, x) for name, x in attributes.items() if x is not None and x is not False]
    )
    if tag in _VOID:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{''.join(map(_content, children))}</{tag}>")


@lru_cache(maxsize=256)
def _check_tag(tag: str) -> None:
    if not _NAME.fullmatch(tag) or tag in _RAW:
        raise InvalidArgument("element: tag", tag, "a name of an element without code")


def joined(*children: Any) -> Markup:
    """Markup and text, one after the other."""
    return Markup("".join(map(_content, children)))


def _content(child: Any) -> str:
    """HTML of a child."""
    if isinstance(child, Markup):
        return child.text
    if isinstance(child, str):
        return html.escape(child)
    if child is None:
        return ""
    if isinstance(child, Iterable):
        return "".join(map(_content, child))
    return html.escape(str(child))


@lru_cache(maxsize=256)
def _attribute_name(name: str) -> str:
    """The name of an attribute that is given as an argument of Python."""
    written = name.rstrip("_").replace("_", "-")
    if not _NAME.fullmatch(written) or written.lower().startswith("on"):
        raise InvalidArgument("element: attribute", name, "a name without code")
    return written


def _attribute(name: str, value: Any) -> str:
    """An attribute with the space before it."""
    written = _attribute_name(name)
    if value is True:
        return f" {written}"
    text = html.escape(str(value))
    if written in _ADDRESSES and not _OWN.match(text):
        raise InvalidArgument(f"element: {written}", value, _PLACE)
    return f' {written}="{text}"'


def data_block(name: str, value: Any) -> Markup:
    """Data for a script of the page, as JSON that a browser does not run, at the id `name`."""
    code = json.dumps(value, allow_nan=False)
    # ASCII without < and >: nothing in it ends the block or begins a comment
    safe = code.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(f'<script type="application/json" id="{html.escape(name)}">{safe}</script>')


def script_hash(code: str) -> str:
    """The source expression of a script in a Content-Security-Policy."""
    digest = hashlib.sha256(code.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def content_policy(scripts: Iterable[str], **more: str) -> str:
    """A Content-Security-Policy that allows these scripts, styles and images in the page alone.

    Args:
        scripts: Code of the scripts, as it stands between the tags.
        **more: Further sources by directive, as in `script_src="'wasm-unsafe-eval'"`.
    """
    sources = {
        "default-src": [],
        "base-uri": [],
        "form-action": [],
        "script-src": list(map(script_hash, scripts)),
        "style-src": ["'unsafe-inline'"],
        "img-src": ["data:", "blob:"],
    }
    for name, given in more.items():
        sources.setdefault(name.replace("_", "-"), []).append(given)
    return "; ".join(f"{name} {' '.join(given) or _NONE}" for name, given in sources.items())


def page(title: str, style: str, body: Any, scripts: Sequence[str] = ()) -> str:
    """A page that is one file: it asks no network, and runs these scripts at its end only.

    Args:
        title: Title of the window.
        style: Its style sheet, code of ours.
        body: Its content.
        scripts: Code of ours; data comes to it by `data_block`.
    """
    for code in (style, *scripts):
        if _ENDS_CODE.search(code):
            raise InvalidArgument("page", _ENDS_CODE.findall(code)[0], "code that ends no element")
    head = (
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=content_policy(scripts)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        Markup(f"<style>{style}</style>"),
    )
    last = [Markup(f"<script>{x}</script>") for x in scripts]
    whole = element("html", element("head", head), element("body", body, last), lang="en")
    return f"<!doctype html>{whole}\n"
