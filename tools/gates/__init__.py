"""The gates of tools/check by name, in the order in which they run: cheap ones first."""
from . import analysers, built, english, pages, sources
from .tree import Tree

GATES = {f.__name__: f for f in (
    sources.layers, sources.doors, sources.names, sources.contract, built.headers, built.prefixes, built.symbols, sources.banned, sources.early, sources.waits,
    english.words, sources.products, sources.format, built.clang, built.drift, built.image, built.notice, pages.named, pages.docs, pages.runnable,
    analysers.shell, analysers.cppcheck, analysers.analyzer, analysers.tidy, sources.sizes)}

__all__ = ["GATES", "Tree"]
