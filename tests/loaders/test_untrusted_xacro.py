"""Xacro files of strangers: nothing of them is run, nothing outside their folder is read."""

from __future__ import annotations

import os
import sys

import pytest

import qddot
from qddot.errors import DescriptionError
from qddot.loaders import urdf
from qddot.loaders.expressions import evaluate
from qddot.loaders.isolation import ChildLimits, run_isolated
from qddot.loaders.trust import Refused
from qddot.loaders.urdf import expand_xacro
from qddot.loaders.xacro_expansion import global_symbols
from qddot.verify.audit import audit
from qddot.verify.compare import compare

SECRET = "a-secret-of-the-user"
MARK = "marker"
REASONS = (
    "not allowed in a file|invalid syntax|SyntaxError|cannot be called|deep|too many nested|"
    "more than|not a file|circular variable|larger than|could not determine a constructor"
)
_NAMESPACE = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'
_DEEP = "[" * 400 + "1" + "]" * 400


def document(body, name="x"):
    return f'<robot name="{name}" {_NAMESPACE}>{body}<link name="base"/></robot>'


def escaped(text):
    for letter, entity in (("&", "&amp;"), ("<", "&lt;"), ('"', "&quot;")):
        text = text.replace(letter, entity)
    return text


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder for the file of a stranger, beside files that it must not see."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "private.yaml").write_text(f"secret: {SECRET}\n")
    (tmp_path / "private.xacro").write_text(document(f'<link name="{SECRET}"/>'))
    monkeypatch.setenv("QDDOT_TEST_SECRET", SECRET)
    folder = tmp_path / "stranger"
    folder.mkdir()
    monkeypatch.chdir(folder)
    # hang guards of the tests; a normal file takes a tenth of it
    monkeypatch.setattr(urdf, "_LIMITS", ChildLimits(cpu_seconds=2, output=32 * 2**20))
    return folder


def attempt(place, body, **files):
    """The error of a file; its text must not tell the secret, and nothing may be written."""
    for name, content in files.items():
        (place / name.replace("__", ".")).write_text(content)
    path = place / "robot.xacro"
    path.write_text(document(body))
    with pytest.raises(DescriptionError, match=REASONS) as caught:
        expand_xacro(path)
    assert SECRET not in str(caught.value)
    assert not (place / MARK).exists()
    assert len(str(caught.value)) < 3000
    return str(caught.value)


EXPRESSIONS = {
    # a generator that looks at its own frame sees the builtins of xacro
    "frames": "[g := (g.gi_frame.f_back.f_back.f_builtins['open']"
              f"('{MARK}', 'w') for _ in [1]), list(g)]",
    "frame": "(x for x in ()).gi_frame",
    "class": "().__class__.__base__.__subclasses__()",
    "class by name": "type(())",
    "python.type": "python.type(())",
    "python.vars": "python.vars(python)",
    "globals of a function": "xacro.load_yaml.__globals__",
    "code of a function": "xacro.tokenize.func_globals",
    "attribute of a table": "xacro.root",
    "parent of a table": "math.parent",
    "format": "'{0.__class__.__init__.__globals__}'.format(xacro)",
    "format_map": "'{a.__class__}'.format_map(dict(a=1))",
    "format of str": "str.format('{0.__class__}', 1)",
    "f-string": "f'{().__class__}'",
    "f-string of a method": "f'{xacro.load_yaml.__globals__}'",
    "wide f-string": "f'{1:1000000000}'",
    "lambda": "(lambda: 1)()",
    "walrus": "(a := 1)",
    "starred": "max(*[1, 2])",
    "builtins": "__builtins__",
    "import": "__import__('os').system('true')",
    "open": f"open('{MARK}', 'w')",
    "mro": "str.mro()",
    "own attribute of a float": "(1.0).hex()",
    "map over a method": "list(map(str.format, ['{0.__class__}'], [1]))",
    "bytes": "b'a'.hex()",
    "yield": "(yield)",
    "await": "(await 1)",
    "two statements": "1; 2",
    "power": "9**9**9",
    "power of two": "2**(10**9)",
    "shift": "1 << 10**10",
    "negative power": "(-1)**0.5",
    "long text": "len('a' * 10**10)",
    "long list": "len([0] * 10**10)",
    "long tuple": "len(10**10 * (0,))",
    "long sum": "len(list(range(10**12)))",
    "sum of a range": "python.sum(range(10**12))",
    "wide percent": "'%1000000000d' % 1",
    "wide percent by argument": "'%*d' % (1000000000, 1)",
    "precise percent": "'%.1000000000f' % 1",
    "wide text": "'a'.ljust(10**10)",
    "wide zeros": "'a'.zfill(10**10)",
    "replaced": "len(('a' * 100000).replace('a', 'b' * 100000))",
    "joined": "len(('a' * 100000).join(['b'] * 90000))",
    "rounded": "round(1, -10**10)",
    "factorial": "math.factorial(10**8)",
    "combinations": "math.comb(10**7, 5 * 10**6)",
    "nested loops": "[1 for a in range(9999) for b in range(9999) for c in range(9999)]",
    "loop over long texts": "['x' * 99999 for a in range(9999)]",
    "loop over long lists": "list(map(list, [range(99999)] * 99999))",
    "deep": _DEEP,
    "deep signs": "-" * 5000 + "1",
    "long": "1" + "+1" * 20_000,
    "secret by yaml": "xacro.load_yaml('../private.yaml')['secret']",
    "secret by the old name": "load_yaml('../private.yaml').secret",
}  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_expressions_that_are_refused(place, expression):
    def load_yaml(name):
        raise Refused(name)

    names = global_symbols(load_yaml)
    with pytest.raises((Refused, NameError, SyntaxError, TypeError, RecursionError)):
        evaluate(expression, names)
    assert not (place / MARK).exists()


@pytest.mark.parametrize("way", ["argument", "eval"])
@pytest.mark.parametrize("name", ["frames", "format", "python.vars", "lambda", "power", "deep",
                                  "wide percent", "rounded", "secret by yaml"])  # fmt: skip
def test_expressions_of_files_are_refused(place, name, way):
    expression = EXPRESSIONS[name]
    # arguments and properties may hold braces and brackets that ${…} and $(…) cannot
    body = {
        "argument": '<xacro:arg name="a" default="EXPRESSION"/><link name="n${$(arg a)}"/>',
        "eval": '<xacro:property name="p" value="EXPRESSION"/><link name="n$(eval ${p})"/>',
    }[way]
    attempt(place, body.replace("EXPRESSION", escaped(expression)))


OTHER_WAYS = {
    "env": '<link name="$(env QDDOT_TEST_SECRET)"/>',
    "optenv": '<link name="$(optenv QDDOT_TEST_SECRET)"/>',
    "optenv with default": '<link name="$(optenv QDDOT_TEST_NOT d)"/>',
    "env in eval": '<xacro:property name="p" value="env(\'QDDOT_TEST_SECRET\')"/>'
                   '<link name="$(eval ${p})"/>',
    "cwd": '<link name="$(cwd)"/>',
    "dirname": '<link name="$(dirname)"/>',
    "unknown": '<link name="$(anon x)"/>',
    "condition": '<xacro:if value="${(x for x in ()).gi_frame}"/>',
    "default": '<xacro:arg name="a" default="${().__class__}"/>',
    "parameter": '<xacro:macro name="m" params="a:=${().__class__}"><link name="${a}"/>'
                 "</xacro:macro><xacro:m/>",
    "name of a property": '<xacro:property name="${().__class__}" value="1"/>',
    "name of a macro": '<xacro:call macro="${().__class__}"/>',
    "name of an element": '<xacro:element xacro:name="${().__class__}"/>',
    "name of an attribute": '<xacro:attribute name="${().__class__}" value="1"/>',
    "comment": "<!-- xacro:eval-comments --><!-- ${().__class__} -->",
    "text": "<link name='l'>${().__class__}</link>",
    "name of a file": '<xacro:include filename="${().__class__}"/>',
    "namespace of a file": '<xacro:include filename="robot.xacro" ns="${().__class__}"/>',
    "yaml by an absolute path": "<link name=\"${xacro.load_yaml('ROOT/private.yaml')}\"/>",
    "yaml of the system": "<link name=\"${xacro.load_yaml('/etc/passwd')}\"/>",
    "yaml through a package": "<link name=\"${xacro.load_yaml('$(find etc)/passwd')}\"/>",
    "package that is a path": "<link name=\"${xacro.load_yaml('$(find ..)/private.yaml')}\"/>",
    "package that is a root": "<link name=\"${xacro.load_yaml('$(find /)etc/passwd')}\"/>",
    "include by an absolute path": '<xacro:include filename="ROOT/private.xacro"/>',
    "include above": '<xacro:include filename="../private.xacro"/>',
    "include by a pattern": '<xacro:include filename="../pri*.xacro"/>',
    "include of what may be missing":
        '<xacro:include filename="../private.xacro" optional="true"/>',
    "include of a device": '<xacro:include filename="/dev/zero"/>',
    "yaml of a device": "<link name=\"${xacro.load_yaml('/dev/zero')}\"/>",
    "include of itself": '<xacro:include filename="robot.xacro"/>',
    "macro in itself": '<xacro:macro name="m"><xacro:m/></xacro:macro><xacro:m/>',
    "macros in one another": '<xacro:macro name="a"><xacro:b/></xacro:macro>'
                             '<xacro:macro name="b"><xacro:a/></xacro:macro><xacro:a/>',
    "macros that multiply": "".join(
        f'<xacro:macro name="m{i}"><xacro:m{i + 1}/><xacro:m{i + 1}/></xacro:macro>'
        for i in range(40)
    ) + '<xacro:macro name="m40"><link name="l"/></xacro:macro><xacro:m0/>',
    "blocks that multiply": '<xacro:macro name="m" params="**b n"><xacro:if value="${n > 0}">'
        '<xacro:m n="${n - 1}"><b><xacro:insert_block name="b"/><xacro:insert_block name="b"/></b>'
        '</xacro:m></xacro:if></xacro:macro><xacro:m n="60"><b><link name="l"/></b></xacro:m>',
    "text that doubles": '<xacro:property name="p0" value="xxxxxxxxxx"/>' + "".join(
        f'<xacro:property name="p{i + 1}" value="${{p{i}}}${{p{i}}}"/>' for i in range(40)
    ) + '<link name="${p40}"/>',
    "lists that double": '<xacro:property name="p0" value="${[1]}"/>' + "".join(
        f'<xacro:property name="p{i + 1}" value="${{[p{i}, p{i}]}}"/>' for i in range(40)
    ) + '<link name="${p40}"/>',
    "property in itself": '<xacro:property name="p" value="${p}"/><link name="${p}"/>',
}  # fmt: skip


@pytest.mark.parametrize("body", OTHER_WAYS.values(), ids=OTHER_WAYS)
def test_ways_that_are_refused(place, body):
    attempt(place, body.replace("ROOT", str(place.parent)))


@pytest.mark.parametrize("tag", [
    f"!!python/object/apply:os.system ['touch {MARK}']",
    "!!python/name:os.system",
    f"!degrees \"[g := (g.gi_frame.f_back.f_back.f_builtins['open']('{MARK}', 'w')"
    ' for _ in [1]), list(g)]"',
    "!radians ().__class__",
    "!degrees 9**9**9",
    "!!binary aGVsbG8=",
])  # fmt: skip
def test_yaml_is_plain_data(place, tag):
    attempt(place, "<link name=\"${xacro.load_yaml('a.yaml')['k']}\"/>", a__yaml=f"k: {tag}\n")


def test_yaml_that_multiplies_is_refused(place):
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    attempt(place, "<link name=\"${xacro.load_yaml('a.yaml')}\"/>", a__yaml="\n".join(rows))


@pytest.mark.parametrize("action", [
    "open('marker', 'w')", "__import__('os').mkdir('marker')", "eval('1')",
    "__import__('subprocess').run(['touch', 'marker'])", "__import__('os').system('touch marker')",
    "__import__('socket').create_connection(('127.0.0.1', 9))",
])  # fmt: skip
def test_actions_are_refused_should_python_be_reached(place, action, tmp_path):
    """The second wall: were an expression run as Python, it could still do nothing."""
    (tmp_path / "breach.py").write_text(
        "import xacro\nfrom qddot.loaders import xacro_expansion\n"
        "def expand(*arguments):\n    replace = xacro_expansion._refuse_actions\n"
        "    def breach():\n        replace()\n"
        "        xacro.safe_eval = lambda text, *_: run(text)\n"
        "    xacro_expansion._refuse_actions = breach\n"
        "    return xacro_expansion.expand(*arguments)\n"
        "def run(text):\n    return eval(text, {'eval': xacro.eval})\n"
    )
    path = place / "robot.xacro"
    path.write_text(document(f'<link name="${{{action}}}"/>'))
    with pytest.raises(DescriptionError, match="not trusted"):
        run_isolated("breach:expand", str(path), {}, False, file=path)
    assert not (place / MARK).exists()


LAUGHS = (
    '<!DOCTYPE robot [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    '<robot><link name="&b;"/></robot>'
)


@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize(
    "content",
    [
        LAUGHS,
        '<!DOCTYPE robot SYSTEM "../private.xacro"><robot/>',
        '<!DOCTYPE robot [<!ENTITY a SYSTEM "../private.xacro">]><robot>&a;</robot>',
        "<!DOCTYPE robot [<!ATTLIST link name CDATA 'l'>]><robot><link/></robot>",
    ],
)
def test_entities_are_refused_in_every_file(place, content, trust):
    (place / "part.xacro").write_text(content)
    path = place / "robot.xacro"
    for text in (document('<xacro:include filename="part.xacro"/>'), content):
        path.write_text(text)
        with pytest.raises(DescriptionError, match=r"DOCTYPE|entit|DTD"):
            qddot.load(path, trust=trust)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
def test_links_out_of_the_folder_are_refused(place):
    os.symlink(place.parent / "private.yaml", place / "a.yaml")
    os.symlink(place.parent / "private.xacro", place / "part.xacro")
    os.symlink(place.parent, place / "up")
    assert "outside" in attempt(place, "<link name=\"${xacro.load_yaml('a.yaml')['secret']}\"/>")
    assert "outside" in attempt(place, "<link name=\"${xacro.load_yaml('up/private.yaml')}\"/>")
    assert "outside" in attempt(place, '<xacro:include filename="part.xacro"/>')


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
def test_a_pipe_is_not_waited_for(place):
    os.mkfifo(place / "pipe.xacro")
    assert "not a file" in attempt(place, '<xacro:include filename="pipe.xacro"/>')


def test_a_file_that_is_too_long_is_refused(place):
    with open(place / "part.xacro", "wb") as stream:
        stream.truncate(65 * 2**20)
    assert "larger than 64 MiB" in attempt(place, '<xacro:include filename="part.xacro"/>')


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_work_without_end_is_ended(place):
    """Every step is allowed, but there are too many of them."""
    inner = "".join('<link name="${[i * i for i in range(900)][0]}"/>' for _ in range(5000))
    attempt(place, inner * 20)


@pytest.mark.parametrize("name", ["robot.urdf", "robot.xml", "robot.sdf"])
def test_xacro_elements_in_other_files_are_refused(place, name):
    path = place / name
    path.write_text(document('<xacro:property name="p" value="1"/><link name="l${p}"/>'))
    with pytest.raises(DescriptionError, match=r"rename it to .*\.xacro.*trust=True") as caught:
        qddot.load(path)
    assert caught.value.line == 1
    with pytest.raises(DescriptionError, match="trust=True"):
        audit(path)
    with pytest.raises(DescriptionError, match="trust=True"):
        qddot.writers.convert(path, place / "out.urdf")
    with pytest.raises(DescriptionError, match="trust=True"):
        compare(path, path)


def test_trust(place, monkeypatch):
    """With trust a file may see its surroundings, and xacro elements count in any file."""
    body = (
        '<link name="$(env QDDOT_TEST_SECRET)"/>'
        "<link name=\"${xacro.load_yaml('../private.yaml')['secret']}2\"/>"
        '<link name="${(x for x in (1,)).gi_frame.f_lineno}"/>'
        '<xacro:include filename="../private.xacro"/>'
    )
    for name in ("robot.xacro", "robot.urdf"):
        path = place / name
        path.write_text(document(body))
        text = expand_xacro(path, trust=True).decode()
        assert text.count(f'name="{SECRET}"') == 2
        assert f'name="{SECRET}2"' in text
        with pytest.raises(DescriptionError):
            qddot.load(path)
