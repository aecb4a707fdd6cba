"""What a source file defines, by tree-sitter: functions, classes and their like with their lines. Imported by the indexer's process alone.

A table for each language says which nodes define something. A language that is not here has no symbols, and its files are shown by lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

MOST = 2_000
"""Symbols of one file."""
_SIGNATURE = 140
_DEEPEST = 60

_C = ("function_definition", "struct_specifier", "enum_specifier", "union_specifier", "type_definition", "preproc_function_def")
_JS = ("function_declaration", "generator_function_declaration", "class_declaration", "method_definition", "variable_declarator")
_TS = (*_JS, "interface_declaration", "type_alias_declaration", "enum_declaration", "abstract_class_declaration", "internal_module")
DEFINES: dict[str, frozenset[str]] = {
    "python": frozenset(("function_definition", "class_definition")),
    "javascript": frozenset(_JS),
    "typescript": frozenset(_TS),
    "tsx": frozenset(_TS),
    "go": frozenset(("function_declaration", "method_declaration", "type_spec")),
    "rust": frozenset(f"{one}_item" for one in "function struct enum trait impl mod const static type union".split())
    | {"macro_definition"},
    "java": frozenset(f"{one}_declaration" for one in "class interface enum record method constructor annotation_type".split()),
    "c": frozenset(_C),
    "cpp": frozenset((*_C, "class_specifier", "namespace_definition")),
    "ruby": frozenset(("method", "singleton_method", "class", "module")),
    "bash": frozenset(("function_definition",)),
}
SUFFIXES = {
    **dict.fromkeys(("py", "pyi"), "python"),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs"), "javascript"),
    **dict.fromkeys(("ts", "mts", "cts"), "typescript"),
    "tsx": "tsx",
    "go": "go",
    "rs": "rust",
    "java": "java",
    **dict.fromkeys(("c", "h"), "c"),
    **dict.fromkeys(("cc", "cpp", "cxx", "hpp", "hh", "hxx"), "cpp"),
    **dict.fromkeys(("rb", "rake"), "ruby"),
    **dict.fromkeys(("sh", "bash"), "bash"),
}
_FUNCTIONS = frozenset(("arrow_function", "function_expression", "function", "generator_function", "class"))


class Symbol(NamedTuple):
    name: str
    start: int
    """Its first line, from 1."""
    end: int
    depth: int
    """0 at the top of the file, 1 in a class there, …"""
    signature: str


def language_of(path: str) -> str | None:
    return SUFFIXES.get(path.rpartition("/")[2].rpartition(".")[2].lower())


def symbols(source: bytes, language: str) -> list[Symbol]:
    """In the order of the file."""
    found: list[Symbol] = []
    tree = _parser(language).parse(source)
    for symbol in _below(tree.root_node, source, DEFINES[language], 0, 0):
        found.append(symbol)
        if len(found) == MOST:
            break
    return found


@cache
def _parser(language: str) -> Any:
    from tree_sitter import Language, Parser

    module = import_module(f"tree_sitter_{'typescript' if language == 'tsx' else language}")
    grammar = getattr(module, f"language_{language}" if language in ("typescript", "tsx") else "language")
    return Parser(Language(grammar()))


def _below(node: Any, source: bytes, defines: frozenset[str], depth: int, level: int) -> Iterator[Symbol]:
    if level > _DEEPEST:
        return
    for child in node.named_children:
        symbol = _symbol(child, source, depth) if child.type in defines else None
        if symbol is not None:
            yield symbol
        yield from _below(child, source, defines, depth + (symbol is not None), level + 1)


def _symbol(node: Any, source: bytes, depth: int) -> Symbol | None:
    if node.type == "variable_declarator":
        value = node.child_by_field_name("value")
        if value is None or value.type not in _FUNCTIONS:
            return None
    body = node.child_by_field_name("body")
    if node.type.endswith("_specifier") and body is None:
        return None  # a use of the type, no definition
    name = _name(node, source)
    if not name:
        return None
    end = body.start_byte if body is not None else node.end_byte
    head = source[node.start_byte : min(end, node.start_byte + 400)].decode("utf-8", "replace")
    signature = " ".join(head.split()).rstrip("{: ")[:_SIGNATURE]
    return Symbol(name, node.start_point[0] + 1, node.end_point[0] + 1, depth, signature)


def _name(node: Any, source: bytes) -> str:
    """Of the node's own name; of C, of the identifier at the end of its declarators."""
    named = node.child_by_field_name("name") or node.child_by_field_name("declarator") or node.child_by_field_name("type")
    for _ in range(8):
        inner = named.child_by_field_name("declarator") if named is not None else None
        if inner is None:
            break
        named = inner
    text: str = source[named.start_byte : named.end_byte].decode("utf-8", "replace") if named is not None else ""
    return " ".join(text.split())[:80]


__all__ = ["DEFINES", "SUFFIXES", "Symbol", "language_of", "symbols"]
