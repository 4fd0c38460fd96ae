"""Elements and pages: what is given to them is text, and only code of ours runs."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from html_pages import HOSTILE, check_page, read_page

import qddot
from qddot.display.markup import (
    Markup,
    content_policy,
    data_block,
    element,
    joined,
    page,
    script_hash,
)
from qddot.errors import InvalidArgument

SOURCE = Path(qddot.__file__).parent
TAGS = re.compile(
    r"</?(a|b|body|circle|code|div|figure|h[1-6]|head|html|i|iframe|img|li|line|p|path|polygon|rect"
    r"|script|section|span|style|svg|table|t[dhr]|tbody|text|thead|title|u|ul)[ >/]"
)


def test_text_and_attributes_are_data():
    made = element(
        "p", HOSTILE, [HOSTILE, None, (1, 2.5)], id=HOSTILE, class_="a", data_name=HOSTILE
    )
    (tag, attributes), *rest = read_page(made.text).elements
    assert (tag, rest) == ("p", [])
    assert attributes == {"id": HOSTILE, "class": "a", "data-name": HOSTILE}
    assert "".join(read_page(made.text).text) == HOSTILE * 2 + "12.5"


def test_markup_stays_and_nothing_is_left_out_by_chance():
    inner = element("b", "a<b")
    assert element("p", inner, 0, False, "").text == "<p><b>a&lt;b</b>0False</p>"
    assert joined(inner, "<", None, [inner]).text == f"{inner}&lt;{inner}"
    assert element("br").text == "<br>"
    assert element("i", hidden=True, title=None, lang=False, x=0).text == '<i hidden x="0"></i>'
    assert element("line", stroke_width=2, viewBox="0").text == (
        '<line stroke-width="2" viewBox="0"></line>'
    )


@pytest.mark.parametrize(
    ("tag", "attributes"),
    [("script", {}), ("style", {}), ("a b", {}), ("p>", {}), ("", {}), ("a", {"onclick": "f()"}),
     ("a", {"a b": 1}), ("a", {"x>": 1}), ("a", {"href": "javascript:a()"}), ("a", {"href": ""}),
     ("a", {"href": " #a"}), ("a", {"href": "//x.org"}), ("img", {"src": "https://x.org/a.png"}),
     ("iframe", {"srcdoc": "<b>"}), ("iframe", {"src": "http://x.org/"}), ("form", {"action": "/"}),
     ("iframe", {"src": "http://a@127.0.0.1:80/x/"}), ("a", {"OnClick": "f()"})],
)  # fmt: skip
def test_elements_and_attributes_that_are_code_are_refused(tag, attributes):
    with pytest.raises(InvalidArgument):
        element(tag, **attributes)


def test_data_ends_no_script():
    block = data_block("data", {HOSTILE: [HOSTILE, 1.5, None]}).text
    found = read_page(block + "<p>after</p>")
    assert [tag for tag, _ in found.elements] == ["script", "p"]
    assert not re.search(r"[<>&\u2028]", found.scripts[0][1])
    assert "<" not in block[1:-9]


def test_a_page_allows_its_scripts_alone():
    code = "document.title = 'a' < 'b';"
    made = page(HOSTILE, "p { color: red }", element("p", HOSTILE), [code])
    found = check_page(made)
    assert [tag for tag, _ in found.elements] == [
        "html", "head", "meta", "meta", "meta", "link", "title", "style", "body", "p", "script"
    ]  # fmt: skip
    policy = found.elements[3][1]["content"]
    assert f"script-src {script_hash(code)}; " in policy
    assert policy.startswith("default-src 'none'; base-uri 'none'; form-action 'none'; ")
    # the hash of the Content-Security-Policy specification, level 3
    assert script_hash("alert('Hello, world.');") == (
        "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"
    )
    assert "script-src 'none'" in content_policy([])
    more = content_policy([], worker_src="blob:", img_src="'self'")
    assert more.endswith("img-src data: blob: 'self'; worker-src blob:")


@pytest.mark.parametrize("code", ["a</script>", "a</SCRIPT >", "<!-- a", "</style>"])
def test_code_that_ends_its_element_is_refused(code):
    with pytest.raises(InvalidArgument):
        page("", "", "", [code])
    with pytest.raises(InvalidArgument):
        page("", code, "")


def test_only_the_module_of_elements_writes_tags():
    found = []
    for folder in ("report", "view", "verify/audit", "display"):
        for file in sorted((SOURCE / folder).rglob("*.py")):
            if file.name == "markup.py":
                continue
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                named = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Markup"
                text = "".join(
                    x.value for x in getattr(node, "values", ()) if isinstance(x, ast.Constant)
                    and isinstance(x.value, str)
                ) if isinstance(node, ast.JoinedStr) else ""  # fmt: skip
                if named or TAGS.search(text):
                    found.append(f"{file.relative_to(SOURCE)}:{node.lineno}")
    assert not found
    assert Markup("a").text == "a"
