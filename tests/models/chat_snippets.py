"""Small templates, one construct or two each, for make_chat_templates.py."""

VARIABLES = {
    "text": "Hello, World", "spaced": "  a b\t\n", "empty": "", "umlauts": "Äpfel für Öl, straße 東京 😀",
    "n": 7, "neg": -7, "x": 2.5, "zero": 0, "yes": True, "no": False, "nothing": None,
    "items": [3, 1, 2], "words": ["b", "A", "c", "a"], "none_list": [], "mixed": [1, "a", None, 2.0],
    "map": {"b": 1, "a": {"deep": [10, 20, 30]}, "items": "key", "1": "one"},
    "people": [{"name": "Ann", "age": 30, "role": "user"}, {"name": "bob", "age": 5, "role": "tool"},
               {"name": "Cy", "role": "user"}],
    "quotes": "it's \"so\" \\ \x07\u00a0end", "lines": "one\ntwo\r\n\nthree",
}

SNIPPETS = r"""
{{ text }}
{{ missing }}|
{{ nothing }} {{ yes }} {{ no }} {{ n }} {{ x }} {{ zero }}
{{ items }} {{ mixed }} {{ map }} {{ (1,) }} {{ () }} {{ (1, 'a') }} {{ [] }} {{ {} }}
{{ quotes }} {{ [quotes] }} {{ ["it's"] }} {{ ['"'] }} {{ ['\n\t\r\x00\x7f é 😀 \u200b'] }}
{{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1.5e-7 }} {{ 123456789.125 }} {{ 1e100 }} {{ -0.0 }}
{{ 1_000 }} {{ 1_0.5 }}
{{ 7 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }}
{{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ 7.5 % 2 }} {{ -7.5 % 2 }} {{ 1 / 3 }} {{ 6 / 3 }}
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ -n }} {{ +n }} {{ -n + 1 }} {{ - -n }} {{ -2 ** 2 }}
{{ 1 + 1.5 }} {{ true + 1 }} {{ 'a' + 'b' }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ [1] * 2 }} {{ 'a' * -1 }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ missing + 1 }}
{{ [1] + (1,) }}
{{ nothing + 1 }}
{{ 'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1] ~ missing }}
{{ 1 ~ 2 + 3 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 >= 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ none == none }} {{ missing == missing2 }}
{{ [1, 2] == [1, 2] }} {{ [1] == (1,) }} {{ {'a': 1} == {'a': 1.0} }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ [1] != [2] }}
{{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 'Z' < 'a' }} {{ 'é' > 'z' }} {{ (1, 2) <= (1, 2) }}
{{ 'a' < 1 }}
{{ none < 1 }}
{{ missing < 1 }}
{{ 'lo' in text }} {{ 'x' not in text }} {{ 3 in items }} {{ 'a' in map }} {{ 'z' in map }} {{ 1 in (1, 2) }} {{ '' in '' }} {{ 1 in missing }}
{{ 1 in 'a' }}
{{ 1 in 5 }}
{{ 'a' in none }}
{{ [] in map }}
{{ not yes }} {{ not empty }} {{ not not items }} {{ not 1 == 2 }} {{ not missing }}
{{ yes and n }} {{ no or text }} {{ empty or none_list }} {{ no and missing.foo }} {{ n or missing.foo }} {{ 0 or 0.0 }}
{{ 'a' if yes else 'b' }} {{ 'a' if no else 'b' }} {{ 'a' if no }}| {{ 1 if no else 2 if no else 3 }}
{{ ('a' if no) is defined }}
{{ text[0] }} {{ text[-1] }} {{ text[100] }}| {{ items[0] }} {{ items[-1] }} {{ items[5] }}| {{ umlauts[0] }} {{ umlauts[-1] }}
{{ text[1:3] }} {{ text[:2] }} {{ text[-3:] }} {{ text[::-1] }} {{ text[::2] }} {{ text[8:2:-2] }} {{ text[:] }} {{ umlauts[1:4] }} {{ umlauts[::-1] }}
{{ items[1:] }} {{ items[::-1] }} {{ items[:-1] }} {{ items[5:] }} {{ items[-100:100] }} {{ (1, 2, 3)[1:] }} {{ items[100::-1] }} {{ items[:0:-1] }}
{{ items[none:2] }} {{ items[true:] }}
{{ items[::0] }}
{{ items['a':] }}
{{ nothing[1:] }}
{{ missing[1:] }}
{{ map['b'] }} {{ map.b }} {{ map.a.deep }} {{ map['a']['deep'][-1] }} {{ map.a.deep.1 }} {{ map['zzz'] }}| {{ map.zzz }}| {{ map['1'] }} {{ map[1] }}|
{{ map['items'] }} {{ people[0].name }} {{ people[2].age }}| {{ (people|first)['name'] }}
{{ map.zzz.y }}
{{ map['zzz']['y'] }}
{{ missing.x }}
{{ missing['x'] }}
{{ none.x }}| {{ (1).x }}| {{ text.x }}| {{ items.x }}|
{{ none.x.y }}
{{ text['x'] }}| {{ items['x'] }}| {{ 5[0] }}|
{{ missing() }}
{{ text() }}
{{ map.get('b') }} {{ map.get('zzz') }} {{ map.get('zzz', 5) }} {{ map.get('a').get('deep') }}
{% for k, v in map.items() %}{{ k }}={{ v }};{% endfor %}
{% for k in map %}{{ k }},{% endfor %}|{% for k in map.keys() %}{{ k }},{% endfor %}|{% for v in map.values() %}{{ v }},{% endfor %}
{{ map.keys()|list }} {{ map.items()|list }} {{ map.values()|length }} {{ map.keys()|join('-') }}
{% for k, v in map|items %}{{ k }}{{ loop.index }}{% endfor %}{% for k, v in missing|items %}x{% endfor %}
{% for k, v in map|dictsort %}{{ k }};{% endfor %}
{{ {'b': 2, 'a': 1}|dictsort }} {{ {'b': 1, 'a': 2}|dictsort(by='value') }} {{ {'b': 1, 'A': 2}|dictsort(true) }} {{ {'b': 1, 'a': 2}|dictsort(reverse=true) }}
{{ spaced.strip() }}| {{ spaced.lstrip() }}| {{ spaced.rstrip() }}| {{ 'xxaxx'.strip('x') }} {{ 'abcba'.strip('ab') }} {{ '\u00a0\u3000a\u2003'.strip() }}|
{{ 'xxaxx'.lstrip('x') }} {{ 'xxaxx'.rstrip('x') }} {{ 'éaé'.strip('é') }} {{ 'a'.strip(none) }}
{{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }} {{ 'a b  c '.split(none, 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a'.split('b') }} {{ 'a,b,c'.split(',', maxsplit=1) }}
{{ 'a,b,c'.rsplit(',', 1) }} {{ ' a  b c '.rsplit(none, 1) }} {{ 'a--b--c'.split('--')[-1] }} {{ 'aXbX'.split('X') }} {{ 'a b'.split(' ', 0) }}
{{ 'a'.split('') }}
{{ 'a'.split(1) }}
{{ lines.splitlines() }} {{ 'a\n'.splitlines() }} {{ ''.splitlines() }} {{ 'a\x0bb\x85c\u2028d'.splitlines() }}
{{ text.startswith('He') }} {{ text.startswith(('x', 'H')) }} {{ text.endswith('d') }} {{ text.endswith(('x', 'ld')) }} {{ text.startswith('') }} {{ text.startswith(()) }}
{{ text.startswith(['H']) }}
{{ text.startswith(1) }}
{{ text.upper() }} {{ text.lower() }} {{ umlauts.upper() }} {{ umlauts.lower() }} {{ 'hELLO wORLD'.title() }} {{ "they're bill's".title() }} {{ 'hELLO wORLD'.capitalize() }} {{ 'éA'.capitalize() }}
{{ text.replace('l', 'L') }} {{ text.replace('l', 'L', 1) }} {{ text.replace('zz', 'y') }} {{ 'ab'.replace('', '-') }} {{ 'é'.replace('', '-') }} {{ 'aaa'.replace('aa', 'b') }} {{ 'ab'.replace('', '-', 2) }} {{ ''.replace('', 'x') }}
{{ ','.join(['a', 'b']) }} {{ ''.join(words) }} {{ '-'.join('abc') }} {{ ','.join([]) }} {{ '-'.join(map) }}
{{ ','.join([1]) }}
{{ text.find('l') }} {{ text.find('zz') }} {{ text.rfind('l') }} {{ umlauts.find('Ö') }} {{ text.count('l') }} {{ 'aaa'.count('aa') }} {{ 'abc'.count('') }} {{ 'é'.count('') }}
{{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ 'abc'.removeprefix('x') }}
{{ [1, 2, 1].count(1) }} {{ [1, 2].index(2) }} {{ (1, 1).count(1) }}
{{ [1].index(5) }}
{{ items.append(4) }}
{% set _ = items.append(4) %}{{ items }}
{{ map.update({'c': 1}) }}
{{ text.strip(1) }}
{{ text.upper('x') }}
{{ spaced|trim }}| {{ 'xax'|trim('x') }} {{ 5|trim }} {{ missing|trim }}| {{ none|trim }}
{{ text|length }} {{ umlauts|length }} {{ items|length }} {{ map|length }} {{ missing|length }} {{ items|count }} {{ ''|length }} {{ range(3)|length }}
{{ 5|length }}
{{ none|length }}
{{ text|upper }} {{ text|lower }} {{ 'hELLO wORLD'|capitalize }} {{ "they're bill's (foo) [bar] a-b <c> {d}"|title }} {{ 5|upper }} {{ none|lower }} {{ ['A']|lower }}
{{ items|join }} {{ items|join(', ') }} {{ people|join('+', attribute='name') }} {{ 'abc'|join('-') }} {{ missing|join }}| {{ mixed|join('/') }} {{ people|join(attribute='name') }}
{{ missing|default('x') }} {{ none|default('x') }} {{ none|default('x', true) }} {{ ''|default('x', true) }} {{ missing|d('y') }} {{ missing|default }}| {{ 0|default(1, boolean=true) }} {{ missing|default(default_value=3) }}
{{ items|first }} {{ items|last }} {{ text|first }} {{ text|last }} {{ none_list|first }}| {{ none_list|last }}| {{ map|first }} {{ missing|first }}|
{{ 5|first }}
{{ 'abc'|list }} {{ map|list }} {{ (1, 2)|list }} {{ range(3)|list }} {{ missing|list }} {{ range(2, 5)|list }} {{ range(5, 0, -2)|list }} {{ range(0)|list }} {{ range(-3)|list }}
{{ 5|list }}
{{ range(1, 2, 0) }}
{{ range(200000) }}
{{ range('a') }}
{{ range() }}
{{ range(5)[1] }} {{ range(5)[-1] }} {{ 3 in range(5) }} {{ range(3) == range(3) }} {{ range(3) == [0, 1, 2] }}
{{ people|map(attribute='name')|list }} {{ people|map(attribute='age', default=0)|list }} {{ words|map('upper')|list }} {{ [' a ']|map('trim')|join }} {{ people|map(attribute='zzz')|list }} {{ ['a,b']|map('replace', ',', ';')|list }} {{ [[1, 2]]|map(attribute=0)|list }} {{ [{'a': {'b': 1}}]|map(attribute='a.b')|list }}
{{ people|selectattr('role', 'equalto', 'user')|map(attribute='name')|join(',') }} {{ people|selectattr('age')|map(attribute='name')|list }} {{ people|rejectattr('age', 'defined')|list }} {{ people|selectattr('role', 'eq', 'tool')|list|length }} {{ people|selectattr('age', 'defined')|selectattr('age', '>', 10)|list }} {{ people|selectattr('role', 'in', ['tool'])|map(attribute='name')|first }}
{{ items|select('odd')|list }} {{ items|reject('odd')|list }} {{ mixed|select|list }} {{ mixed|reject|list }} {{ items|select('>', 1)|list }} {{ ['a', 1]|select('string')|list }} {{ items|select('divisibleby', 3)|list }}
{{ (items|select('odd')) is iterable }} {{ (items|map('string')) is sequence }} {{ 'x' if none_list|map('string') else 'y' }}
{{ items|select('odd')|length }}
{{ (items|map('string'))[0] }}|
{{ items|map('string')|last }}
{% set g = items|map('string') %}{{ g|list }}{{ g|list }}
{% set g = items|select %}{{ g|first }}{{ g|first }}{{ g|join }}{{ g|first }}|
{{ items|sort }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ items|sort(reverse=true) }} {{ people|selectattr('age', 'defined')|sort(attribute='age')|map(attribute='name')|list }} {{ map|sort }}
{{ mixed|sort }}
{{ [1, 2, 1, 'a', 'A']|unique|list }} {{ words|unique(true)|list }} {{ items|reverse|list }} {{ text|reverse }} {{ umlauts|reverse }} {{ map|reverse|list }}
{{ items|min }} {{ items|max }} {{ words|min }} {{ words|max }} {{ words|max(true) }} {{ none_list|min }}| {{ people|selectattr('age', 'defined')|max(attribute='age') }} {{ ['b', 'B']|max }} {{ ['b', 'B']|min }}
{{ 3.7|int }} {{ '42'|int }} {{ ' 42 '|int }} {{ '3.9'|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ -3.7|int }} {{ true|int }} {{ none|int }} {{ '1e3'|int }} {{ '+5'|int }} {{ '-5'|int }} {{ ''|int }} {{ '1_000'|int }}
{{ missing|int }}
{{ '3.5'|float }} {{ 3|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ '1e3'|float }} {{ true|float }} {{ none|float }} {{ ' 2 '|float }} {{ 'inf'|float }} {{ 'nan'|float }}
{{ 5|string }} {{ none|string }} {{ [1]|string }} {{ missing|string }}| {{ 'a'|string }} {{ 1.0|string + 'x' }} {{ true|string }}
{{ -5|abs }} {{ (-5)|abs }} {{ -2.5|abs }} {{ true|abs }}
{{ 'a'|abs }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.567|round(2) }} {{ 2.4|round(method='ceil') }} {{ 2.6|round(method='floor') }} {{ 2.345|round(2, 'floor') }} {{ 5|round }} {{ 42.55|round(1, 'ceil') }} {{ 2.675|round(2) }} {{ -2.5|round }} {{ 0.5|round|int }}
{{ text|replace('l', 'L') }} {{ text|replace('l', 'L', 1) }} {{ 123|replace(2, 'x') }} {{ text|replace('l', 'L', count=2) }}
{{ 'a\nb\n\nc'|indent }}| {{ 'a\nb'|indent(2) }} {{ 'a\nb'|indent(2, true) }} {{ 'a\n\nb'|indent(2, blank=true) }} {{ 'a\nb'|indent('> ') }} {{ 'a\nb\n'|indent(1) }}| {{ ''|indent }}| {{ lines|indent(3, first=true) }}
{{ map|tojson }}
{{ map|tojson(indent=2) }}
{{ [1, [], {}, [[]]]|tojson(indent=4) }}
{{ mixed|tojson }} {{ text|tojson }} {{ quotes|tojson }} {{ none|tojson }} {{ true|tojson }} {{ 1.0|tojson }} {{ 1e20|tojson }} {{ (1, 2)|tojson }} {{ {}|tojson }} {{ []|tojson }} {{ '<a> & \'b\' é \u2028 \x7f \x1f'|tojson }}
{{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ umlauts|tojson(ensure_ascii=true) }} {{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }} {{ [1, 2]|tojson(separators=(',', ':')) }} {{ {'a': 1}|tojson(indent='\t') }} {{ [1]|tojson(indent=0) }}
{{ missing|tojson }}
{{ range(3)|tojson }}
{{ map.items()|tojson }}
{{ 'nan'|float|tojson }} {{ 'inf'|float|tojson }} {{ '-inf'|float|tojson }}
{{ '<b>'|safe }} {{ '<b>' }}
{{ missing is defined }} {{ text is defined }} {{ missing is undefined }} {{ map.zzz is defined }} {{ map.b is not undefined }} {{ none is defined }} {{ strftime_now is defined }} {{ raise_exception is defined }}
{{ none is none }} {{ missing is none }} {{ 0 is none }} {{ none is not none }} {{ 'a' is string }} {{ 5 is string }} {{ map is mapping }} {{ items is mapping }}
{{ items is sequence }} {{ map is sequence }} {{ text is sequence }} {{ 5 is sequence }} {{ (1,) is sequence }} {{ missing is sequence }} {{ map.keys() is sequence }} {{ range(2) is sequence }}
{{ items is iterable }} {{ 5 is iterable }} {{ none is iterable }} {{ text is iterable }} {{ missing is iterable }} {{ map is iterable }}
{{ 5 is number }} {{ 5.0 is number }} {{ true is number }} {{ '5' is number }} {{ 5 is integer }} {{ true is integer }} {{ 5.0 is integer }} {{ 5.0 is float }} {{ 5 is float }} {{ true is boolean }} {{ 1 is boolean }}
{{ true is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }} {{ yes is true }} {{ 5 is odd }} {{ 4 is even }} {{ -3 is odd }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }}
{{ 5 is eq 5 }} {{ 5 is equalto 6 }} {{ 5 is ne 6 }} {{ 5 is lt 6 }} {{ 5 is gt(4) }} {{ 5 is ge 5 }} {{ 5 is le 4 }} {{ 3 is in [3] }} {{ 'a' is in map }} {{ 3 is not in [3] }} {{ 5 is greaterthan 3 }} {{ 5 is lessthan 3 }}
{{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'aB' is lower }} {{ '1' is lower }} {{ range is callable }} {{ text is callable }}
{{ 5 is defined and 6 is defined }} {{ not text is string }} {{ text is string or no }} {{ 'a' if text is string else 'b' }} {{ n is odd == true }}
{{ 'a' is odd }}
{% if no %}a{% elif n == 7 %}b{% else %}c{% endif %}{% if missing %}x{% endif %}{% if 0.0 or '' or [] or {} or () or none %}y{% else %}z{% endif %}
{% for i in items %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }};{% endfor %}
{% for i in items %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}
{% for i in items %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}
{% for i in [] %}x{% else %}none{% endfor %}{% for i in missing %}x{% else %}missing{% endfor %}
{% for i in items if i > 1 %}{{ i }}{{ loop.last }}{% else %}x{% endfor %}{% for i in items if i > 5 %}{{ i }}{% else %}none{% endfor %}
{% for a, b in [(1, 2), [3, 4]] %}{{ a }}-{{ b }} {% endfor %}{% for (a, b) in [(1, 2)] %}{{ a + b }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}
{% for a, b in [1] %}{{ a }}{% endfor %}
{% for c in 'aé😀' %}{{ c }},{% endfor %}
{% for i in 5 %}x{% endfor %}
{% for i in none %}x{% endfor %}
{% for i in range(3) %}{% for j in range(2) %}{{ loop.index }}{{ loop.depth }}{% endfor %}{{ loop.index }} {% endfor %}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in range(3) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}
{% set a = 1 %}{% for i in range(3) %}{% set a = a + 1 %}{{ a }}{% endfor %}{{ a }}
{% set a = 1 %}{% if yes %}{% set a = 2 %}{% endif %}{{ a }}
{% set ns = namespace(a=1, b='x') %}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}|{{ ns['a'] }}
{% set ns = namespace({'a': 5}) %}{{ ns.a }}{% set ns.z = [1] %}{{ ns.z }}{% set m = ns %}{% set m.a = 6 %}{{ ns.a }}
{% set text.x = 1 %}
{% set missing.x = 1 %}
{% set ns = namespace(_a=1) %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a = 1, 2 %}{{ a }}{% set a, b = 'xy' %}{{ b }}
{% set a, b = 1 %}
{% set a, b = [1, 2, 3] %}
{% set block %}Hi {{ n }}{% endset %}{{ block }}{{ block|length }}
{% set block | upper | replace('I', 'o') %}Hi {{ n }}{% set inner = 5 %}{% endset %}{{ block }}{{ inner }}|
{% macro m(a, b=2, c='x') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c=5) }}{{ m() }}{{ m(b=1, a=2) }}
{% macro m(a, b=a ~ 'b') %}{{ b }}{% endmacro %}{{ m('x') }}{{ m('x', 'y') }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% macro fact(k) %}{% if k <= 1 %}1{% else %}{{ k * (fact(k - 1)|int) }}{% endif %}{% endmacro %}{{ fact(6) }}
{% macro m() %}{{ outer }}{% set outer = 3 %}{{ outer }}{% endmacro %}{% set outer = 1 %}{{ m() }}{{ outer }}{% set outer = 2 %}{{ m() }}
{% macro m() %}{{ i }}|{% endmacro %}{% for i in [1, 2] %}{{ m() }}{% endfor %}
{% macro m() %}{% for i in [1, 2] %}{{ loop.index }}{% endfor %}{% endmacro %}{% for i in [1] %}{{ m() }}{{ loop.index }}{% endfor %}{{ m()|length }}
{% macro m() %}x{% endmacro %}{{ m is defined }}{{ m is callable }}{{ m() ~ 'y' }}{{ 'z' if m }}
{{ dict(a=1, b=2) }} {{ dict({'a': 1}, b=2) }} {{ dict() }}
{{ raise_exception('no: ' ~ n) }}
{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d %H:%M:%S %A %B %a %j %y %I %p %% %-d %-m') }}
{{ 'a' 'b' "c" }} {{ 'a\'b' }} {{ "a\"b" }} {{ 'tab\tnl\nx' }} {{ '\x41\u00e9\U0001F600\101\z\\' }}
{{ "é" }} {{ '{{' }} {{ '}}' }} {{ "%}" }} {{ '#}' }}
{# comment #}a{# {{ n }} #}b{#- c -#} d
{% raw %}{{ n }} {% if %}{% endraw %}
{%- raw -%} {{ n }} {%- endraw -%} x
{{ n -}}   x   {{- n }}
a  {%- if yes -%}  b  {%- endif -%}  c
  {% if yes %}  x  {% endif %}  y
{% if yes +%} x {%+ if yes %} y {% endif %}{% endif %}
{{ {'a': {'b': 1}}['a'] }} {{ {'a': 1,} }} {{ [1, 2,] }} {{ {1: 'x'}[1] }} {{ {'a': 1, 'a': 2} }} {{ {(1, 2): 3} }}
{{ {[1]: 2} }}
{{ (1, 2)[0] }} {{ [1, 2][1] }} {{ 'abc'[1] }} {{ {'a': [1]}.a[0] }} {{ ('a')|upper }} {{ 'a'.upper().lower() }}
{{ 1, 2 }}
{{ True }} {{ False }} {{ None }} {{ true }} {{ none }}
{{ text|upper|lower|length }} {{ text|replace('l', 'x')|upper }} {{ -1|abs + 1 }} {{ 'a' ~ 'b'|upper }} {{ (1 + 1)|string ~ 'x' }} {{ 2 * 'ab'|length }}
{{ items | map ( 'string' ) | join ( ',' ) }}
{{ foo(1) }}
{{ text|foo }}
{{ text is foo }}
{% foo %}
{% endif %}
{% if yes %}
{% for i in items %}{% endif %}
{{ text
{{ 'abc }}
{{ (1 }}
{{ 1) }}
{{ }}
{{ a b }}
{{ 1 + }}
{% if %}{% endif %}
{% set 5 = 1 %}
{% set true = 1 %}
{{ text.foo() }}
{{ text[ }}
{{ $ }}
{# open
{% break %}
{{ text|map('foo')|list }}
{{ [1]|select('foo')|list }}
{{ m(1, 2 3) }}
{{ text.upper( }}
{{ namespace(1) }}
{{ not }}
{{ 5 is }}
{{ x is not }}
{% macro m(a=1, b) %}{% endmacro %}
{{ text|upper(1) }}
{{ text|replace('a') }}
{{ [1, 2]|join(', ', 'x', 'y') }}
{{ 'a' in ['a', 'b'] and 'b' not in 'xyz' }} {{ 1 == 1 and 2 == 2 or 3 == 4 }} {{ 1 if 2 > 1 and not no else 0 }}
{{ map.a.deep|length > 2 and map.a.deep[0] == 10 }} {{ people|length - 1 }} {{ (people|length - 1) - 0 }} {{ loop is defined }}
{% for p in people %}{% if p['role'] == 'user' and p.age is defined %}{{ p.name }}{% endif %}{% endfor %}
{% for p in people[::-1] %}{% set index = (people|length - 1) - loop.index0 %}{{ index }}{{ p.name }}{% endfor %}
{% generation %}a{{ n }}{% endgeneration %}b
{% set a = 1 %}{% generation %}{% set a = 2 %}{{ a }}{% endgeneration %}{{ a }}
{% for i in [1, 2] %}{% generation %}{{ i }}{{ loop.last }}{% endgeneration %}{% endfor %}
""".strip("\n").split("\n")

# What needs lines of its own.
SNIPPETS += [
    "{{ 'a\\\nb' }}", "{% for a in [1, 2] -%}\n    {{ a }}\n{%- endfor %}\n",
    "a\n", "a\n\n", "a\r\nb\rc\n", "\n{% if yes %}\n  x\n{% endif %}\n\ny\n",
    "  {% set a = 1 %}\n  b{% set a = 2 %}\n  {{ a }}\n", "{{ 'a\nb' }}\n{{ n }}\n\n",
    "a\n   {%- if yes %}\n   b\n   {%- endif %}\n", "a\n   {#- c #}\n   b {# d #}\nc",
    "x {% if yes %}\t\n y{% endif %}", "{% raw %}\n {{ a }}\n {% endraw %}\n b",
    "\u00a0{%- if yes %}a{% endif -%}\u00a0 b", "a\n \t{% if yes %}b{% endif %}\n",
    "{{ n }}\n{{ n }}", "{% for i in items %}\n{{ i }}\n{% endfor %}\n",
    "{% for i in items %}\n    {{- i }}\n{%- endfor %}", "{%- set x -%}\n a \n{%- endset -%}\n{{ x }}|",
    "{{ 1 }}{{ foo(2) }}\n", "line\n\n{{ text|foo }}", "{% if yes %}\n\n{{ text.foo() }}{% endif %}",
]
