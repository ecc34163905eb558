"""The wheel and the sdist, each installed in a new environment and used from another folder.

The environment finds the dependencies in the site-packages of this one, so that torch is not installed again.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest

import spade

ROOT = Path(__file__).parents[2]
PIP = (sys.executable, "-m", "pip", "--quiet", "--no-input")


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # it names this folder


def run(*command, cwd=ROOT):
    words = [*map(str, command)]
    done = subprocess.run(words, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel of this folder, and the wheel of its sdist."""
    folder = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder)
    (sdist,) = folder.glob("*.tar.gz")
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", folder / "again", sdist)
    return [next(folder.glob("*.whl")), next((folder / "again").glob("*.whl"))]


def test_both_wheels_hold_every_file_of_the_packages(built):
    packages = ("spade", "actors", "learner", "replay", "configs")
    tracked = run("git", "ls-files", *packages).split()
    wanted = {f"spade/{name}" if name.startswith("configs/") else name for name in tracked}
    for wheel in built:
        assert {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name} == wanted


def test_a_new_environment_uses_it_from_another_folder(built, tmp_path):
    place = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", place)
    packages = sysconfig.get_path("purelib", vars={"base": place})
    Path(packages, "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    run(*PIP, "--python", place / "bin/python", "install", "--no-deps", "--no-index", built[1])
    command = place / "bin/spade"
    assert run(command, "--version", cwd=tmp_path) == f"spade {spade.__version__}\n"
    found = run(place / "bin/python", "-c", "import spade; print(spade.open_run.__code__.co_filename)", cwd=tmp_path)
    assert found.startswith(packages)
    told = run(command, "up", "nano", "--headless", "--steps", "1", "--set", "evaluation.suite=", cwd=tmp_path)
    assert "its last start made 1 learner steps" in told
    assert "`spade nano report runs/nano` measures" in told
    assert '"problems": []' in run(command, "replay", "verify", "runs/nano", "--json", cwd=tmp_path)
