"""What a child finds in its environment, under Paddle's launcher and under ours: name by name."""
import re

import pytest

from nodes import PROGRAMS, free_port

# Names that only the children of one of the two have, each with the reason.
ONLY_ONE = {
    "PADDLE_BACKUP_ENV_PATH": "names a file with the whole environment, secrets included, which ours does not write",
    "CUSTOM_DEVICE_ROOT": "set by importing Paddle, which its launcher does and ours does not",
    "OMP_NUM_THREADS": "the same",
    "PADDLE_AUTO_CLUSTER": "new in 3.x, which ours imitates also under an older Paddle",
    "PADDLE_HETER_TRAINER_IP_PORT_LIST": "of 2.0, whose launcher ours imitates there; newer ones call it PADDLE_ALL_HETER_...",
    "PADDLE_COORDINATOR_ENDPOINTS": "empty; what that launcher became in newer Paddles, for federated training",
    "PADDLERUN_PYTHON": "given to ours by this test",
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
