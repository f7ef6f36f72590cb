"""Mark-up goes, words stay; and hostile mark-up costs no more than other text."""

import time

import pytest

from ergodica.lda.corpus.mediawiki import plain_text

CASES = {
    "template": ("a {{infobox|x={{y|z}} [[q]] }} b", "a  b"),
    "template parameter": ("a {{{1|}}} b", "a } b"),
    "empty last argument": ("a {{t|}} b |}", "a  b "),
    "table": ('a\n{| class="wikitable"\n! x\n|-\n| {{y}} || [[z]]\n|}\nb', "a\n\nb"),
    "table in a table": ("a\n{|\n| x\n{|\n| y\n|}\n| z\n|}\nb", "a\n\nb"),
    "link": ("[[a]] [[page|words]] [[fruit]]s [[:Category:C|c]]", "a words fruits c"),
    "picture": ("a [[File:x.jpg|thumb|A [[big|small]] ''picture'']] b", "a  b"),
    "category and language": ("a[[Category:Fruit]][[fr:Pomme]][[zh-min-nan:X]] b", "a b"),
    "outer link": ("[http://x.org words] [//x.org more] [https://x.org] http://y.org/z end", " words  more   end"),
    "outer link in a picture": ("[[File:x.jpg|by [http://x.org him]]] end", "] end"),
    "reference": ('a<ref name="x">{{cite|b}}</ref> c<ref name="x" /> d', "a c d"),
    "comment": ("a <!-- {{ [[ --> b", "a  b"),
    "heading": ("== First ==\ntext\n=== Second ===\nmore", " First \ntext\n Second \nmore"),
    "brackets": ("[sic] a[1] [[b]", "[sic] a[1] b]"),
    "list": ("a\n* b\n#: c\n; d", "a\n b\n c\n d"),
    "bold and italic": ("'''a''' ''b'' '''''c'''''", "a b c"),
    "tags": ("a<br/>b <span class='x'>c</span><sub>2</sub>", "a\nb c2"),
    "nowiki": ("a <nowiki>[[b]] {{c}}</nowiki> d", "a [[b]] {{c}} d"),
    "formulas and pictures": ("a <math>\\alpha < \\beta</math> b <gallery>\nx.jpg|y\n</gallery> c", "a  b  c"),
    "entities": ("a&nbsp;b &amp; &lt;ref&gt; &#65; &#x42; &nosuch;", "a\xa0b & <ref> A B &nosuch;"),
    "magic words": ("a __NOTOC__ b", "a  b"),
    "less than": ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
    "left open": ("a {{b [[c <ref> d <!-- e", "a b c  d <!-- e"),
    "closed too often": ("a }} b ]] c |} </ref> d", "a  b  c   d"),
    "link left open in a template": ("a {{b [[c}} d", "a  d"),
    "empty": ("", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_mark_up(name):
    wikitext, expected = CASES[name]
    assert plain_text(wikitext) == expected


MARKS = [
    "{{",
    "}}",
    "[[",
    "]]",
    "{|\n",
    "|}",
    "[http:",
    "<ref>",
    "</ref>",
    "<!--",
    "<a",
    "<",
    "=",
    "'",
    "__A",
    "&#1",
    "\n*",
]
HOSTILE = {
    **{mark: mark * 100_000 for mark in MARKS},
    "nested links": "[[a|" * 50_000 + "]]" * 50_000,
    "links in a template": "{{" + "[[" * 2000 + "}}" * 100_000,
    "parameters": "{{{" * 50_000 + "}}}" * 50_000,
    "tags in tags": "<nowiki><pre><ref>" * 30_000 + "</ref></pre></nowiki>",
    "a long number": "&#" + "9" * 100_000 + ";",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_time_is_linear(name):
    started = time.process_time()
    plain_text(HOSTILE[name])
    assert time.process_time() - started < 2  # 0.02 to 0.2 s; a square of 100,000 marks would take minutes
