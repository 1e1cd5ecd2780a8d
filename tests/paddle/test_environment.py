"""What a child finds in its environment, under Paddle's launcher and under ours: name by name."""
import re

import pytest

from nodes import PROGRAMS
from ports import free_port

# Names that only the children of one of the two have, each with the reason.
ONLY_ONE = {
    "PADDLE_BACKUP_ENV_PATH": "names a file with the whole environment, secrets included, which ours does not write",
    "CUSTOM_DEVICE_ROOT": "set by importing Paddle, which its launcher does and ours does not",
    "OMP_NUM_THREADS": "the same",
    "PADDLE_AUTO_CLUSTER": "new in 3.x, which ours imitates also under an older Paddle",
    "PADDLE_HETER_TRAINER_IP_PORT_LIST": "of 2.0, whose launcher ours imitates there; newer ones call it PADDLE_ALL_HETER_...",
    "PADDLE_COORDINATOR_ENDPOINTS": "empty; what that launcher became in newer Paddles, for federated training",
    "PADDLERUN_PYTHON": "given to ours by this test",
    **dict.fromkeys(("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                     "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"),
                    "torchrun's, for scripts of PyTorch (docs/torchrun.md)"),
}

# Wheel, options; addresses of the nodes, where there are several.
MODES = {
    "collective": ("3.3.1", ["--nproc_per_node", "2"]),
    "collective of 2.6.2": ("2.6.2", ["--nproc_per_node", "2"]),
    "collective of a list": ("3.3.1", ["--ips", "127.0.0.1", "--nproc_per_node", "2"]),
    "servers": ("3.3.1", ["--server_num", "2", "--trainer_num", "2"]),
    "servers of lists": ("3.3.1", ["--servers=127.0.0.1:7101,127.0.0.1:7102", "--trainers=127.0.0.1:7103,127.0.0.1:7104"]),
    "servers of the launcher of 2.0": ("3.3.1", ["--server_num=2", "--worker_num=2"]),
    "one stage behind the trainers": ("2.6.2", ["--server_num=1", "--worker_num=2", "--heter_worker_num=1", "--heter_devices=cpu"]),
    "three stages behind the trainers": ("2.6.2", ["--server_num=1", "--worker_num=1", "--heter_worker_num=1;2;1",
                                                   "--heter_devices=cpu;gpu;xpu"]),
    "stages of lists, two nodes": ("2.6.2", ["--servers=127.0.0.2:7111,127.0.0.3:7111", "--workers=127.0.0.2:7112,127.0.0.3:7112",
                                             "--heter_workers=127.0.0.2:7113,127.0.0.3:7113;127.0.0.3:7114",
                                             "--heter_devices=cpu;gpu"], "127.0.0.2", "127.0.0.3"),
    "rpc": ("3.3.1", ["--run_mode", "rpc", "--nproc_per_node", "2"]),
}


def normal(name, value, log_dir):
    """Without what differs from run to run: ports, the pod's name, temporary folders."""
    if name in ("POD_NAME", "PADDLE_GLOO_FS_PATH"):
        return "..."
    if name == "PADDLE_PORT":
        return "PORT"
    return re.sub(r"(?<=\d:)\d+", "PORT", value.replace(f"/{log_dir}", "/LOG_DIR"))


def environments(node):
    """Log file -> name -> value, of all children; programs/env.py prints them."""
    logs = [f for f in sorted(node.log_dir.iterdir()) if re.fullmatch(r"(worker|server|heter)log\.\d", f.name)]
    return {f.name: {k: normal(k, v, node.log_dir.name) for k, v in re.findall(r"^(\w+)=(.*)$", f.read_text(), re.M)}
            for f in logs}


@pytest.mark.parametrize("mode", MODES)
def test_children_have_the_same_environment(nodes, monkeypatch, mode):
    version, words, *ips = MODES[mode]
    monkeypatch.delenv("OMP_NUM_THREADS")
    if mode == "rpc":                                     # Paddle's wants a master where there is but one node
        monkeypatch.setenv("PADDLE_MASTER", f"127.0.0.1:{free_port()}")
    both = [[start(version, *words, PROGRAMS / "env.py", ip=ip) for start in (nodes.ours, nodes.paddles)]
            for ip in ips or ["127.0.0.1"]]
    nodes.finish()
    for ours, paddles in [map(environments, one) for one in both]:
        assert list(ours) == list(paddles) and len(ours) >= 2, nodes.story()
        for child, want in paddles.items():
            differ = {k: f"Paddle's {want.get(k)}, ours {ours[child].get(k)}" for k in {*want, *ours[child]}
                      if want.get(k) != ours[child].get(k) and (k not in ONLY_ONE or (k in want and k in ours[child]))}
            assert not differ, f"{child}: {differ}"


@pytest.mark.parametrize("mode", ["tuner_and_run", "tuner_only", "run_only"])
def test_a_tuner_runs_as_under_paddles_launcher(nodes, monkeypatch, tmp_path, mode):
    """Paddle's test_run.py, collective 4: the same files, and in the tuner all that Paddle's has."""
    (tmp_path / "auto.json").write_text(f'{{"tuner_run_mode": "{mode}"}}')
    monkeypatch.delenv("OMP_NUM_THREADS")
    words = "--auto_parallel_config", "auto.json", "--nproc_per_node", "2", PROGRAMS / "env.py"
    both = [start("3.3.1", *words, ip="127.0.0.1") for start in (nodes.ours, nodes.paddles)]
    nodes.finish()
    ours, paddles = [{f.name: {k: normal(k, v, n.log_dir.name) for k, v in re.findall(r"^(\w+)=(.*)$", f.read_text(), re.M)}
                      for f in n.log_dir.iterdir() if f.name.startswith(("tuner", "worker"))} for n in both]
    assert sorted(ours) == sorted(paddles) == ["tuner.log"] * (mode != "run_only") + ["workerlog.0", "workerlog.1"] * (mode != "tuner_only")
    for child, want in paddles.items():
        differ = {k: f"Paddle's {v}, ours {ours[child].get(k)}" for k, v in want.items() if ours[child].get(k) != v and k not in ONLY_ONE}
        assert not differ, f"{child}: {differ}"


# Wheel, options, environment: what decides the ports.
CLOUD = {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINERS": "127.0.0.2,127.0.0.3", "PADDLE_TRAINER_ID": "1", "PADDLE_PORT": "35789",
         "TRAINER_PORTS_NUM": "2", "POD_IP": "127.0.0.3"}
OLD = ["--legacy=true", "--nproc_per_node", "2"]
PORTS = {
    "PaddleCloud": ("3.3.1", OLD, CLOUD),
    "PaddleCloud, 2.6.2": ("2.6.2", OLD, CLOUD),
    "PaddleCloud, too few ports": ("3.3.1", OLD, {**CLOUD, "TRAINER_PORTS_NUM": "1"}),
    "PaddleCloud, one trainer": ("3.3.1", OLD, {**CLOUD, "PADDLE_TRAINERS_NUM": "1", "PADDLE_TRAINER_ID": "0",
                                                "PADDLE_TRAINERS": "127.0.0.1", "POD_IP": "127.0.0.1", "FLAGS_START_PORT": "6687"}),
    "the old launcher's first port": ("3.3.1", OLD, {"FLAGS_START_PORT": "6687"}),
    "first port": ("3.3.1", ["--nproc_per_node", "2", "--rank", "0"], {"FLAGS_FIXED_PORT": "7000"}),
}


# What public scripts have, of launchers before 2.0; Paddle's of now know them by another name, if at all: "ours", "Paddle's".
IPS = "127.0.0.2,127.0.0.3"
OLD_WORDS = {
    "PaddleCloud by --compat": (["--compat", "2.0", "--nproc_per_node", "2"], OLD, CLOUD),
    "--use_paddlecloud": (["--use_paddlecloud", "--nproc_per_node", "2"], OLD, CLOUD),
    "--cluster_node_ips": ([f"--cluster_node_ips={IPS}", "--node_ip=127.0.0.3", "--nproc_per_node=2"],
                           [f"--ips={IPS}", "--host=127.0.0.3", "--nproc_per_node=2"], {}),
    # Paddle's old launcher takes no more nodes than one without devices; and no list of devices that are not there.
    "--cluster_node_ips and a first port": (["--cluster_node_ips=127.0.0.1", "--node_ip=127.0.0.1", "--nproc_per_node=2"],
                                            ["--ips=127.0.0.1", "--nproc_per_node=2", "--legacy=true"], {"FLAGS_START_PORT": "6687"}),
    "--ips": ([f"--ips={IPS}", "--host=127.0.0.3", "--nproc_per_node=2"],) * 2 + ({},),
    "--ips and a first port": ([f"--ips={IPS}", "--host=127.0.0.3", "--nproc_per_node=2"],) * 2 + ({"FLAGS_START_PORT": "6687"},),
    "--backend": (["--backend=gloo", "--nproc_per_node=2"],) * 2 + ({"FLAGS_START_PORT": "6687"},),
}


@pytest.mark.parametrize("version", ["2.6.2", "3.3.1"])
@pytest.mark.parametrize("case", OLD_WORDS)
def test_old_words_mean_what_they_meant(nodes, case, version):
    mine, its, env = OLD_WORDS[case]
    both = [nodes.ours(version, *mine, PROGRAMS / "env.py", env=env), nodes.paddles(version, *its, PROGRAMS / "env.py", env=env)]
    nodes.finish()
    names = "PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "PADDLE_CURRENT_ENDPOINT", "PADDLE_TRAINER_ENDPOINTS", "PADDLE_DISTRI_BACKEND"
    seen = [{f.name: {k: v for k, v in re.findall(r"^(\w+)=(.*)$", f.read_text(), re.M) if k in names}
             for f in sorted(n.log_dir.glob("workerlog.*"))} for n in both]
    assert seen[0] == seen[1] and len(seen[0]) == 2, nodes.story()


def test_an_unknown_backend_is_refused(nodes):
    """By Paddle's with 1; ours says so of all that is wrong in a command with 2."""
    words = "--backend=random_str", "--nproc_per_node=2", PROGRAMS / "env.py"
    nodes.ours("3.3.1", *words)
    nodes.paddles("3.3.1", *words)
    nodes.finish([2, 1])


@pytest.mark.parametrize("case", PORTS)
def test_children_have_the_same_ports(nodes, case):
    version, words, env = PORTS[case]
    both = [start(version, *words, PROGRAMS / "env.py", env=env) for start in (nodes.ours, nodes.paddles)]
    nodes.finish()
    names = "PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "PADDLE_CURRENT_ENDPOINT", "PADDLE_TRAINER_ENDPOINTS"
    for i in range(2):
        ours, paddles = [{k: v for k, v in re.findall(r"^(\w+)=(.*)$", n.log(f"workerlog.{i}"), re.M) if k in names} for n in both]
        assert ours == paddles and len(ours) == len(names), nodes.story()
