"""A batch script that bash reads as meant, a manifest of the right form, and room in both for all of a config."""

import json
import math
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from spade.cluster.needs import compute_needs
from spade.cluster.schedulers import write_kubernetes, write_slurm
from spade.config import load
from spade.errors import ConfigError

RECIPES = ("nano", "games-4b", "games-30b")


def options(script: str) -> dict[str, str]:
    """The options of sbatch in a script, None's place taken by ""."""
    words = re.findall(r"--([\w-]+)(?:=(\S+))?", "\n".join(re.findall("^#SBATCH (.*)", script, re.MULTILINE)))
    return dict(words)


def slots(script: str, machines: int, gpus: int) -> list[dict[str, int]]:
    """Custom resources that the machines of a job have, as bash reckons them."""
    (join,) = re.findall(r"^join\(\) \{.*?^\}$", script, re.MULTILINE | re.DOTALL)
    joins = "\n".join(f"join {at} | grep -o '{{.*}}'" for at in range(machines))
    begin = f'ray() {{ echo "$@"; }}; SLURM_CPUS_ON_NODE=9 SLURM_GPUS_ON_NODE={gpus}'
    told = subprocess.check_output(["bash", "-euc", f"{begin}\n{join}\n{joins}"], text=True)
    return [json.loads(row) for row in told.splitlines()]


@pytest.mark.parametrize("name", RECIPES)
def test_the_script_is_one_that_bash_reads_and_shellcheck_finds_nothing_in(name, tmp_path):
    script = tmp_path / "spade.sbatch"
    script.write_text(write_slurm(name, (), 8))
    subprocess.run(["bash", "-n", script], check=True)
    if shutil.which("shellcheck"):
        told = subprocess.run(["shellcheck", "--severity=warning", script], capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stdout


def test_the_script_asks_for_the_machines_of_the_recipe_and_for_time_to_drain():
    assert options(write_slurm("games-4b", (), 8)) == {
        "job-name": "spade", "nodes": "1", "ntasks-per-node": "1", "exclusive": "", "mem": "0", "gpus-per-node": "8",
        "time": "24:00:00", "signal": "B:USR1@420", "requeue": "", "no-kill": "", "open-mode": "append",
    }  # fmt: skip
    assert options(write_slurm("games-4b", (), 4))["nodes"] == "2"
    (first, second) = slots(write_slurm("games-4b", (), 4), 2, 4)
    assert (first["learner"] >= 1, first["engine"], second) == (True, 2, {"learner": 0, "engine": 4})
    assert "gpus-per-node" not in options(write_slurm("nano", (), 8))


@settings(max_examples=20)
@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 9), st.integers(8, 16))
def test_each_process_has_gpus_wherever_the_script_lets_it_land(processes, engine, engines, gpus):
    listed = (f"engine.gpus={list(range(engine * engines))}", f"learner.gpus={list(range(50, 50 + processes))}")
    split = (f"engine.tensor_parallel={engine}", f"learner.processes={processes}", f"actors.engines={engines}")
    words = (*listed, *split)
    script = write_slurm("games-30b", words, gpus)
    machines = int(options(script)["nodes"])
    found = slots(script, machines, gpus)
    rank = compute_needs(load("games-30b", (*words, "learner.gpus=[]", "learner.device=cuda")), "learner").gpus
    assert all(slot["learner"] * rank + slot["engine"] * engine <= gpus for slot in found)
    assert sum(slot["learner"] for slot in found) * rank == processes
    assert sum(slot["engine"] for slot in found) >= engines
    assert machines == 1 or sum(slot["engine"] for slot in found[:-1]) < engines  # none too many


def test_the_script_names_the_config_and_its_settings_as_they_were_given(tmp_path):
    odd = tmp_path / "a 'b' $(exit 3).toml"
    odd.write_text('extends = "nano"\n')
    script = write_slurm(str(odd), ("run.seed=7", "actors.agents=1..8"), 8)
    lines = [line for line in script.splitlines() if line.startswith(("config=", "run=${1"))]
    told = subprocess.run(
        ["bash", "-euc", "\n".join([*lines, 'echo "$config"', 'echo "$run"'])], capture_output=True, text=True
    )
    assert told.stdout.splitlines() == [str(odd), "runs/a 'b' $(exit 3)"]
    assert re.findall("--set (.*) ", script) == ["run.seed=7", "actors.agents=1..8"]


@pytest.mark.parametrize("name", RECIPES)
def test_the_manifest_has_containers_for_each_process_and_a_config_that_means_the_same(name, tmp_path):
    *volumes, given, job = documents(write_kubernetes(name, ("run.seed=7",), 8))
    assert [(each["kind"], each["spec"]["accessModes"]) for each in volumes] == [
        ("PersistentVolumeClaim", ["ReadWriteOnce"]), ("PersistentVolumeClaim", ["ReadWriteMany"]),
    ]  # fmt: skip
    file = tmp_path / "config.toml"
    file.write_text(given["data"]["config.toml"])
    config, recipe = load(str(file)), load(name)
    assert (config.run.seed, config.model, config.engine.gpus, config.learner.gpus) == (7, recipe.model, (), ())
    assert config.replay.store == f"/store/{name}"
    cluster = job["spec"]["rayClusterSpec"]
    assert job["spec"]["entrypoint"].endswith(f"--cluster ray --headless --run /runs/{name}")
    assert (cluster["authOptions"], cluster["enableInTreeAutoscaling"]) == ({"mode": "token"}, True)
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    groups = {group["groupName"]: group for group in cluster["workerGroupSpecs"]}
    assert [groups[role]["replicas"] for role in ("learner", "engine")] == [1, recipe.actors.engines]
    for role in ("learner", "engine", "agent", "designer", "env-runner"):
        share = compute_needs(config, role)
        group = groups[{"learner": "learner", "engine": "engine"}.get(role, "actor")]
        (container,) = group["template"]["spec"]["containers"]
        limits = container["resources"]["limits"]
        assert container["resources"]["requests"] == limits
        assert (share.cpus, share.gpus) <= (float(limits["cpu"]), int(limits.get("nvidia.com/gpu", 0)))
        assert share.resources == {group["groupName"]: 1.0}
        said = subprocess.check_output(["bash", "-c", f"echo {group['rayStartParams']['resources']}"], text=True)
        assert json.loads(said)[group["groupName"]] >= 1  # as `ray start` has it after a shell


def test_the_manifest_buys_as_many_machines_for_actors_as_a_range_may_start():
    wide = ("actors.agents=1..30", "place.memory={agent=3221225472}")
    *_, job = documents(write_kubernetes("nano", wide, 8))
    *_, actors = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert (actors["replicas"], actors["minReplicas"], actors["maxReplicas"]) == (1, 0, math.ceil(32 / 8))
    assert actors["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] == "24Gi"


def test_a_manifest_names_a_run_below_its_volumes(tmp_path):
    odd = tmp_path / "...toml"
    odd.write_text('extends = "nano"\n')
    *_, job = documents(write_kubernetes(str(odd), (), 8))
    assert job["spec"]["entrypoint"].endswith("--run /runs/-")


def test_the_manifest_is_one_that_kuberay_takes(request):
    path = request.config.getoption("--kuberay-crd")
    if path is None:
        pytest.skip("untried without KubeRay's schema: --kuberay-crd=FILE, its ray.io_rayjobs.yaml")
    definition = yaml.load(Path(path).read_bytes(), yaml.CSafeLoader)
    (version,) = (each for each in definition["spec"]["versions"] if each["name"] == "v1")
    *_, job = documents(write_kubernetes("games-30b", (), 8))
    jsonschema.validate(job, strict(version["schema"]["openAPIV3Schema"]))


def test_one_line_refuses_what_the_script_cannot_hold(tmp_path):
    with pytest.raises(ConfigError, match=r"^engine: .*asks for 2 GPUs .* --gpus says 1"):
        write_slurm("games-30b", (), 1)
    odd = tmp_path / "a\nb.toml"
    odd.write_text('extends = "nano"\n')
    with pytest.raises(ConfigError, match=r"a\\nb.toml': .*characters .* printed"):
        write_slurm(str(odd), (), 8)
    with pytest.raises(ConfigError, match=r"^place\.gpus: engine = 1 are too few for engine\.tensor_parallel = 2"):
        write_kubernetes("games-30b", ("place.gpus={engine=1}",), 8)


def documents(manifest: str) -> list[Any]:
    return list(yaml.safe_load_all(manifest))


def strict(schema: Any) -> Any:
    """The schema without room for fields that it does not name: Kubernetes drops these without a word."""
    match schema:
        case dict():
            closed = {key: strict(value) for key, value in schema.items()}
            if isinstance(closed.get("properties"), dict) and "type" in closed:
                closed.setdefault("additionalProperties", bool(schema.get("x-kubernetes-preserve-unknown-fields")))
            return closed
        case list():
            return [strict(each) for each in schema]
    return schema
