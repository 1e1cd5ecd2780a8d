"""Paddle's documents inside pods: three of them are hosts with an sshd (deploy/hosts), where each document's commands run
as they stand there, with our programs in them.  docs/documents.md says which test is which document's."""
import contextlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys

import pytest
import yaml

from cluster import BUILD, KUBECTL, LOCAL, ROOT, SLOW, STATE, Space, program, sh, wait
from test_plain import completed

HOSTS = ROOT / "deploy/hosts"
TRAIN_FLEET = ROOT / "tests/programs/train_fleet.py"
pytestmark = pytest.mark.deadline(400)      # seconds: far beyond what any takes
SMALL = "--lines=1200 --test-lines=200"
WORD2VEC = r"^Pass 0, Batch 20, Cost [0-9.]+, {'classification_error_evaluator': [0-9.]+}, Testing metrics "


class Hosts(Space):
    """The pods of deploy/hosts/hosts.yaml, made as docs/cluster.md says."""

    def __init__(self, cluster, home):
        sh(LOCAL / "images", "--bin", BUILD / "bin", "--out", BUILD / "images", "--into", STATE, "hosts", seconds=300)
        super().__init__(cluster, f"hosts-{random.SystemRandom().randrange(16 ** 4):04x}")
        key = home / "key"
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
        self.kubectl("create", "secret", "generic", "paddle-ssh", f"--from-file=id_ed25519={key}",
                     f"--from-file=authorized_keys={key}.pub", f"--from-file=config={HOSTS / 'ssh_config'}")
        self.kubectl("create", "-f", HOSTS / "hosts.yaml")
        ready = ("get", "statefulset", "host", "-o", "jsonpath={.status.readyReplicas}")
        wait("three hosts ready", 150, lambda: self.kubectl(*ready) == "3", lambda: self.kubectl("describe", "pods")[-6000:])
        self.ip = [self.pod(f"host-{i}").status.pod_ip for i in range(3)]
        self.wheel = sh(sys.executable, ROOT / "python/wheel", "v1.2", home).strip()
        for i in range(3):
            self.copy(TRAIN_FLEET, f"host-{i}:/home/paddle/train_fleet.py")
            self.copy(self.wheel, f"host-{i}:/home/paddle/paddlerun.whl")

    def kubectl(self, *args, **more):
        return self.c.kubectl("-n", self.name, *args, **more)

    def copy(self, file, to):
        """Once more where the container runtime has not started the copying process in its own time, on a machine that is busy."""
        said = [""]

        def copied():
            try:
                self.kubectl("cp", file, to)
                return True
            except AssertionError as e:
                said[0] = str(e)
                return False
        wait(f"{file} at {to}", 60, copied, lambda: said[0])

    def processes(self):
        """{pid: command line} of all three, but those of their sshds."""
        ours = {os.readlink(f"/proc/{self.c.pid(self.pod(f'host-{i}'))}/ns/pid") for i in range(3)}
        found = {}
        for p in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(p / "ns/pid") in ours:
                    found[int(p.name)] = (p / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            except OSError:                     # it has ended
                pass
        return {pid: c for pid, c in found.items() if c and not c.startswith(("sshd:", "/usr/sbin/sshd"))}

    def nothing_left(self):
        wait("nothing left on the hosts", 60, lambda: not self.processes(), lambda: str(self.processes()))

    def kill_left(self):
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def on(self, i, script):
        """What a shell on a host prints."""
        return self.kubectl("exec", f"host-{i}", "-c", "sshd", "--", "sh", "-ec", script)


@pytest.fixture(scope="module")
def hosts(cluster, tmp_path_factory):
    h = Hosts(cluster, tmp_path_factory.mktemp("hosts"))
    yield h
    h.delete()


class Shells:
    """Commands on hosts, side by side, each in a directory of its own there."""

    def __init__(self, hosts, home):
        self.hosts, self.home, self.list = hosts, home, []
        self.dir = f"/home/paddle/{home.name}"

    def start(self, i, script):
        out = self.home / f"shell{len(self.list)}"
        # One stream: kubectl does not keep two in order.
        script = f"exec 2>&1; mkdir -p {self.dir}; cd {self.dir}; {script}"
        p = subprocess.Popen([KUBECTL, "--kubeconfig", STATE / "kubeconfig", "-n", self.hosts.name, "exec",
                              f"host-{i}", "--", "sh", "-ec", script], stdout=out.open("w"), stderr=subprocess.STDOUT)
        self.list.append((p, out))
        return out

    def finish(self, seconds=100):
        for p, _ in self.list:
            assert p.wait(SLOW * seconds) == 0, self.story()
        self.hosts.nothing_left()
        return [out.read_text() for _, out in self.list]

    def story(self):
        return "\n".join(f"-- {out.name}\n{out.read_text()[-2000:]}" for _, out in self.list)


@pytest.fixture
def shells(hosts, tmp_path):
    s = Shells(hosts, tmp_path)
    yield s
    for p, _ in s.list:
        p.kill()
        p.wait()
    hosts.kill_left()                           # of a test that failed: kubectl's end ends nothing there


def fitted(text, size):
    """Every process of train_fleet.py has ended with the weights of all."""
    ends = re.findall(r"^worker (\d+) of (\d+) weights 3.0000 1.0000$", text, re.M)
    assert sorted(ends) == sorted((str(i), str(size)) for i in range(size)), text


# ---- 0.8 to 0.12 ------------------------------------------------------------------------------


def test_cluster_train_over_ssh(hosts):
    """The workspace is copied to all hosts; then a second job runs in it where it lies."""
    text = (HOSTS / "cluster_train.yaml").read_text()
    package = '--job_dispatch_package="/home/paddle/workspace"'
    assert package in text
    hosts.kubectl("delete", "--ignore-not-found", "-f", HOSTS / "cluster_train.yaml")
    hosts.kubectl("create", "-f", HOSTS / "cluster_train.yaml")
    out, = completed(hosts, "cluster-train", 150).values()
    assert "servers listen on all 3 hosts" in out and "job completed" in out, out
    folder = re.search(r"job of 3 hosts in (\S+)", out)[1]
    assert re.fullmatch(r"/home/paddle/JOB\d{14}", folder), out
    trained_in(hosts, folder)
    for i in range(3):
        hosts.on(i, f"cd {folder}; rm -rf output; rm nodefile; echo of the last job >log/train.log")
    hosts.kubectl("delete", "-f", HOSTS / "cluster_train.yaml")
    hosts.kubectl("create", "-f", "-", stdin=text.replace(package, f"--job_workspace={folder}"))
    completed(hosts, "cluster-train", 150)
    trained_in(hosts, folder)
    hosts.kubectl("delete", "-f", HOSTS / "cluster_train.yaml")


def trained_in(hosts, folder):
    """All is where the document says, and nothing runs any more."""
    hosts.nothing_left()
    for i in range(3):
        here = hosts.on(i, f"cd {folder}; cat nodefile; ls log; for d in output/*/; do [ ! -d $d ] || echo $d; done; "
                           "cat log/train.log log/paddle_pserver2.INFO").splitlines()
        assert here[0] == str(i), here
        assert {"server.log", "train.log", "paddle_pserver2.INFO", "paddle_trainer.INFO"} <= set(here), here
        assert any(re.match("Pass 1 Batch 10 Cost [0-9.]+$", line) for line in here), here
        assert any("trainer 2 has finished" in line for line in here) and "of the last job" not in here, here
        assert [line for line in here if "pass-" in line] == [f"output/pass-0000{p}/" for p in range(2 if i == 0 else 0)], here
        assert any(line.startswith("TEST ---> loss: ") for line in here) == (i == 0), here


def test_a_deleted_job_stops_on_every_host(hosts):
    """Ctrl-C of a pod."""
    text = re.sub(r"exec recommendation(.*\\\n)*.*", "exec sleep 1000", (HOSTS / "cluster_train.yaml").read_text())
    hosts.kubectl("delete", "--ignore-not-found", "-f", HOSTS / "cluster_train.yaml")
    hosts.kubectl("create", "-f", "-", stdin=text)
    wait("all trainers run", 60, lambda: sum(c == "sleep 1000" for c in hosts.processes().values()) == 3, lambda: str(hosts.processes()))
    hosts.kubectl("delete", "-f", HOSTS / "cluster_train.yaml")
    hosts.nothing_left()


@pytest.mark.parametrize("mpirun", ["mpirun.openmpi", "mpirun.mpich"])
def test_mpirun(hosts, mpirun):
    for i in range(3):
        hosts.on(i, "rm -rf logs output machines")
    hosts.kubectl("delete", "--ignore-not-found", "-f", HOSTS / "mpi.yaml")
    hosts.kubectl("create", "-f", "-", stdin=(HOSTS / "mpi.yaml").read_text().replace("mpirun.openmpi", mpirun))
    completed(hosts, "mpi", 150)
    hosts.nothing_left()
    for i in range(3):
        here = hosts.on(i, "cat logs/pserver.log logs/train.log; [ ! -d output ] || echo output")
        assert "all 3 trainers have finished" in here and re.search(WORD2VEC, here, re.M), here
        assert here.endswith("\noutput\n") == (i == 0), here


def test_pserver_and_trainers_by_hand(hosts, shells):
    """`paddle pserver` on two hosts, `python train.py` on two; the servers' addresses are those of the pods."""
    flags = "--port=7264 --ports_num=1 --ports_num_for_sparse=1 --num_gradient_servers=2"
    for i in range(2):
        shells.start(i, f"paddlerun pserver {flags} --nics=eth0")
    for i in range(2):
        wait(f"server {i} listens", 60, lambda i=i: "Waiting parameterServer[1]" in shells.list[i][1].read_text(), shells.story)
    for i in range(2):
        shells.start(i, "export PADDLE_INIT_USE_GPU=False PADDLE_INIT_TRAINER_COUNT=1 PADDLE_INIT_PORT=7264 PADDLE_INIT_PORTS_NUM=1 "
                        "PADDLE_INIT_PORTS_NUM_FOR_SPARSE=1 PADDLE_INIT_NUM_GRADIENT_SERVERS=2 "
                        f"PADDLE_INIT_TRAINER_ID={i} PADDLE_INIT_PSERVERS={hosts.ip[0]},{hosts.ip[1]}; word2vec --mode=sync --sentences=1500 --period=20 --save=")
    said = shells.finish()
    assert all("all 2 trainers have finished" in s for s in said[:2]) and all(re.search(WORD2VEC, s, re.M) for s in said[2:]), shells.story()


def test_a_job_of_one_pod(hosts):
    """Kubernetes on one node: a Job whose shell runs `paddle train`, without servers."""
    script = (f"printf '#!/bin/sh\\nexec wide_and_deep {SMALL} --save=$PADDLE_INIT_SAVE_DIR/pass-00000\\n' >train.sh; chmod +x train.sh; "
              "paddlerun train --config=./train.sh --save_dir=./output --trainer_count=4 --num_passes=5 --use_gpu=0; ls output")
    container = {"name": "paddle", "image": "paddlejob/hosts:dev", "imagePullPolicy": "IfNotPresent", "command": ["sh", "-ec", script]}
    hosts.kubectl("create", "-f", "-", stdin=json.dumps({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "one"},
        "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}}))
    out, = completed(hosts, "one").values()
    assert "TEST --->" in out and out.endswith("\npass-00000\n"), out


# ---- 1.x --------------------------------------------------------------------------------------


def test_the_recipe_by_hand(hosts, shells):
    """A server and a trainer on each of two machines, with nothing but the variables of the recipe; the trainers come first."""
    base = f'export PADDLE_PSERVERS_IP_PORT_LIST="{hosts.ip[0]}:36000,{hosts.ip[1]}:36000" PADDLE_TRAINERS_NUM=2'
    for i in range(2):
        shells.start(i, f"{base} TRAINING_ROLE=TRAINER PADDLE_TRAINER_ID={i}; wide_and_deep {SMALL} --save=")
    wait("a trainer waits", 60, lambda: "not ready endpoints:" in shells.list[0][1].read_text(), shells.story)
    for i in range(2):
        shells.start(i, f"{base} TRAINING_ROLE=PSERVER POD_IP={hosts.ip[i]} PADDLE_PORT=36000; wide_and_deep {SMALL}")
    said = shells.finish()
    assert all("TRAIN --->" in s for s in said[:2]), shells.story()
    assert all(re.search(r"Server listening on .*:36000 selected port: 36000", s) for s in said[2:]), shells.story()


# ---- 2.x --------------------------------------------------------------------------------------


def test_the_collective_quick_start(hosts, shells):
    """`python3 -m paddle.distributed.launch --gpus=0,1 train.py`; our module's name stands for Paddle's."""
    shells.start(0, f"export PYTHONPATH=../paddlerun.whl; python3 -m paddlerun --gpus=0,1 ../train_fleet.py; cat log/workerlog.*")
    fitted(shells.finish()[0].split("Pod completed")[-1], 2)


def test_the_collective_quick_start_on_several_nodes(hosts, shells):
    """`--ips="xx,yy" --gpus 0,1`, the same words on every node."""
    for i in range(3):
        shells.start(i, f'paddlerun launch --log_dir= --ips="{",".join(hosts.ip)}" --gpus 0,1 ../train_fleet.py')
    fitted("\n".join(shells.finish()), 6)


def test_the_quick_start_with_servers(hosts, shells):
    """`--server_num=1 --worker_num=2 --gpus=0,1 train.py`."""
    shells.start(0, f"paddlerun launch --server_num=1 --worker_num=2 --gpus=0,1 wide_and_deep {SMALL} --save=; grep -l 'TRAIN --->' log/workerlog.*")
    said = shells.finish()[0]
    assert "all parameter server are killed" in said and said.endswith("log/workerlog.0\nlog/workerlog.1\n"), said


def test_the_printed_command_starts_the_other_node(hosts, shells):
    """`--nnodes=2 demo.py` on one node prints what is to be run on the other."""
    first = shells.start(0, "paddlerun launch --nnodes=2 ../train_fleet.py; cat log/workerlog.*")
    printed = wait("the command is printed", 60, lambda: re.search(r"^-{80}\n(paddlerun launch .*)\n-{80}$", first.read_text(), re.M), shells.story)[1]
    shells.start(1, f"{printed}; cat log/workerlog.*")
    fitted("\n".join(s.split("Pod completed")[-1] for s in shells.finish()), 2)


ELASTIC = """#!/bin/sh
[ $PADDLE_TRAINERS_NUM = 1 ] || exec python3 ../train_fleet.py
echo alone
exec sleep 1000
"""


def test_an_elastic_job_by_an_etcd(hosts, shells):
    """A node begins alone, and again when another comes."""
    hosts.copy(program("etcd"), "host-2:/tmp/etcd")
    hosts.on(2, f"rm -rf /tmp/e; (setsid /tmp/etcd --data-dir=/tmp/e --listen-client-urls=http://0.0.0.0:2379 --advertise-client-urls=http://{hosts.ip[2]}:2379 "
                ">/tmp/etcd.log 2>&1 </dev/null &)")
    wait("etcd serves", 30, lambda: "ready to serve client requests" in hosts.on(2, "cat /tmp/etcd.log"), lambda: hosts.on(2, "cat /tmp/etcd.log"))
    words = (f"cat >node.sh <<'E'\n{ELASTIC}E\nchmod +x node.sh; paddlerun launch --log_dir= --master etcd://{hosts.ip[2]}:2379 --job_id demo --nnodes 1:2 "
             "--elastic_level 1 --elastic_timeout 1 ./node.sh")
    first = shells.start(0, words)
    wait("the first node trains alone", 60, lambda: re.search("^alone$", first.read_text(), re.M), shells.story)
    shells.start(1, words)
    for p, _ in shells.list:
        assert p.wait(SLOW * 100) == 0, shells.story()
    hosts.on(2, "pid=$(cat /proc/[0-9]*/stat | sed -n 's/^\\([0-9]*\\) (etcd).*/\\1/p'); kill -9 $pid; rm -rf /tmp/e /tmp/etcd")
    fitted("\n".join(shells.finish()), 2)


# The document's resnet.yaml: another image and module, no GPU, and the program from a volume.
RESNET = """
apiVersion: batch.paddlepaddle.org/v1
kind: PaddleJob
metadata:
  name: resnet
spec:
  cleanPodPolicy: Never
  worker:
    replicas: 2
    template:
      spec:
        containers:
          - name: paddle
            image: paddlejob/hosts:dev
            imagePullPolicy: IfNotPresent
            command:
            - python3
            args:
            - "-m"
            - "paddlerun"
            - "/program/train_fleet.py"
            env:
            - name: PYTHONPATH
              value: /program/paddlerun.whl
            volumeMounts:
            - mountPath: /dev/shm
              name: dshm
            - mountPath: /program
              name: program
        volumes:
        - name: dshm
          emptyDir:
            medium: Memory
        - name: program
          configMap:
            name: program
"""


def test_the_collective_example(hosts):
    """The operator's two pods, each `python -m paddle.distributed.launch train_fleet.py`."""
    hosts.kubectl("create", "configmap", "program", f"--from-file={TRAIN_FLEET}", f"--from-file=paddlerun.whl={hosts.wheel}")
    hosts.create(yaml.safe_load(RESNET))
    hosts.wait_completed("resnet", 100)
    fitted("".join(hosts.c.core.read_namespaced_pod_log(f"resnet-worker-{i}", hosts.name) for i in range(2)), 2)
