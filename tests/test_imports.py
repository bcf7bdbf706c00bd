"""The public face of the package: light to import, and every name where it says it is."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from helpers.sources import Source, sources

import linoto

HEAVY = {
    "numba",
    "llvmlite",
    "numpy",
    "scipy",
    "pandas",
    "matplotlib",
    "rich",
    "duckdb",
    "dask",
    "litestar",
    "jinja2",
}
ROOT = Path(linoto.__file__).parents[1]


def loaded_after(code: str) -> set[str]:
    """The heavy packages in a fresh interpreter after running this."""
    report = f"import sys\n{code}\nprint(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", report], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_package_runs_as_its_command_does() -> None:
    said = [
        subprocess.run([sys.executable, "-m", module, "--version"], cwd=ROOT, capture_output=True, check=True)
        for module in ("linoto", "linoto.cli")
    ]
    assert said[0].stdout == said[1].stdout != b""


def test_importing_linoto_loads_nothing_heavy() -> None:
    assert loaded_after("import linoto") == set()


def test_a_policy_loads_nothing_but_the_compiler() -> None:
    compiler = {"numba", "llvmlite", "numpy", "scipy"}  # numba takes SciPy along where it is installed
    assert loaded_after("import linoto; linoto.LinOtO; linoto.simulate") <= compiler


def test_listing_names_loads_nothing_heavy() -> None:
    assert loaded_after("import linoto; dir(linoto); linoto.__all__; linoto.__version__") == set()


@pytest.mark.parametrize("name", linoto.__all__)
def test_every_public_name_resolves_and_says_what_it_is_for(name: str) -> None:
    value = getattr(linoto, name)
    assert (inspect.getdoc(value) or "").strip()
    assert value is getattr(linoto, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__module__.startswith("linoto.")
        assert value.__name__ == name


def test_the_two_lists_of_names_agree() -> None:
    tree = ast.parse(Path(linoto.__file__).read_text(encoding="utf-8"))
    seen_by_type_checkers = {
        (node.module, alias.name)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module != "linoto"  # a module, such as linoto.research
        for alias in node.names
        if alias.name == alias.asname  # a re-export, to a type checker
    }
    resolved = {(f"linoto.{home}", name) for home, names in linoto.HOMES.items() for name in names}
    assert seen_by_type_checkers == resolved


def test_the_list_of_names_is_complete_and_sorted() -> None:
    names = [name for home in linoto.HOMES.values() for name in home]
    assert sorted(names) == list(linoto.__all__)
    assert len(names) == len(set(names))
    assert set(linoto.__all__) <= set(dir(linoto))


def test_a_public_name_means_the_same_whatever_was_imported_before() -> None:
    # Importing a submodule binds its name on the package, over anything that __getattr__ would have found.
    assert not set(linoto.HOMES) & set(linoto.__all__), "no public name is the name of a module"
    code = "import linoto\nlinoto.Run\nassert callable(linoto.simulate), linoto.simulate"
    loaded_after(code)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'linoto' has no attribute 'LinOTO'"):
        linoto.LinOTO  # noqa: B018
    assert not hasattr(linoto, "__path_to_nowhere__")


def imports_of(source: Source, modules: set[str]) -> set[str]:
    """Every module of ours that a file imports: at its head, in a function, or for types only."""
    found = set()
    for module, name in source.imported:
        whole = f"{module}.{name}" if module else name
        found.add(whole if whole in modules else module)
    return found & modules


def test_no_module_imports_itself_by_way_of_others_not_even_for_types() -> None:
    """The package alone may: it looks its public names up when they are asked for."""
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): source
        for path, source in sources().items()
    }
    files.pop("linoto")
    graph = {name: imports_of(source, set(files)) - {name} for name, source in files.items()}
    assert len(list(TopologicalSorter(graph).static_order())) == len(files)  # CycleError names the circle
