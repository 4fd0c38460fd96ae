"""Standard streams that take any text, whatever their encoding."""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
import unicodedata

__all__ = ["prepare_streams", "spell"]

_HANDLER = "qddot"
_ASCII = {
    **{"×": "x", "·": "*", "÷": "/", "\u2044": "/", "−": "-", "–": "-", "—": "-", "…": "..."},
    **{"→": "->", "↦": "->", "↑": "^", "≤": "<=", "≥": ">=", "±": "+/-", "∓": "-/+", "‖": "||"},
    **{"µ": "u", "°": " deg", "∂": "d", "√": "sqrt", "∫": "integral", "∞": "inf", "§": "section "},
    **{"⊕": "(+)", "⊖": "(-)", "⊗": "(x)", "•": "*", "‘": "'", "’": "'", "“": '"', "”": '"'},
    # dots over a letter are derivatives by time
    **{"\u0307": "'", "\u0308": "''", "\u0304": ""},
}


def prepare_streams() -> None:
    """Let the standard streams spell what their encoding lacks; a closed one leads to nowhere."""
    for name in ("stderr", "stdout"):
        if getattr(sys, name) is None:
            # takes the free descriptor, which a file would have else
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def spell(text: str, encoding: str) -> str:
    """The text in characters that an encoding has."""
    return text.encode(encoding, _HANDLER).decode(encoding)


def _spell_missing(error: UnicodeError) -> tuple[str, int]:
    """Characters that an encoding lacks, in ASCII: names of letters, operators, else escapes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = "".join(map(_spell_ascii, error.object[error.start : error.end]))
    return re.sub(r"(?<=\^[-+\w])\^", "", text), error.end


def _spell_ascii(character: str) -> str:
    """One character in ASCII."""
    if character.isascii():
        return character
    if character in _ASCII:
        return _ASCII[character]
    kind, *words = unicodedata.name(character, "?").split()
    if kind == "GREEK":
        letter = words[-1].replace("LAMDA", "LAMBDA")
        return letter.capitalize() if words[0] == "CAPITAL" else letter.lower()
    if kind == "BOX":
        lines = {"HORIZONTAL", "VERTICAL", "LEFT", "RIGHT", "UP", "DOWN"}.intersection(words)
        return {"HORIZONTAL": "-", "VERTICAL": "|"}.get("".join(lines), "+")
    parts = unicodedata.normalize("NFKD", character)
    # letters of other alphabets stay exact
    if parts == character or ord(character) in range(0xC0, 0x250):
        return character.encode("ascii", "backslashreplace").decode()
    mark = {"SUPERSCRIPT": "^", "MODIFIER": "^", "SUBSCRIPT": "_"}.get(kind, "")
    return mark + "".join(map(_spell_ascii, parts))


codecs.register_error(_HANDLER, _spell_missing)
