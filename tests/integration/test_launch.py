"""paddlerun launch: real child processes under it, in every mode, and what happens when something goes wrong."""
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from teller import Teller
from rig import BIN, ROOT, SANITIZED, free_port, state_of, wait_for
from wire import Wire

LAUNCH = [BIN / "paddlerun", "launch"]
SECRET = "s3cr3t-do-not-print"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if re.match(r"PADDLE_(?!BIN|SANITIZED)|POD_|TRAINING_|FLAGS_|CUDA_|DISTRIBUTED_", name):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MY_TOKEN", SECRET)
    return tmp_path


def script(name, text):
    path = pathlib.Path(name)
    path.write_text(text)
    path.chmod(0o755)
    return f"./{name}"


def launch(*words, env=None, seconds=60):
    return subprocess.run([*LAUNCH, *words], env={**os.environ, **(env or {})}, capture_output=True, text=True,
                          timeout=seconds)


def start(*words, env=None, **more):
    return subprocess.Popen([*LAUNCH, *words], env={**os.environ, **(env or {})}, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **more)


def log(name, folder="log"):
    return pathlib.Path(folder, name).read_text()


def alive(pid):
    """A process that has not ended (a zombie has)."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def started(n, folder="log"):
    """Waits until n children have said their pids."""
    return wait_for(lambda: (lambda p: len(p) >= n and p)(
        [int(x) for f in glob.glob(f"{folder}/*log.*") for x in re.findall(r"^pid (\d+)$", log(f, "."), re.M)]))


SHOW = """#!/bin/sh
echo "pid $$"
echo "rank $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM args $*"
echo "to stderr" >&2
"""


# ---- what tools look for ----------------------------------------------------------------------


def test_one_node_reads_as_paddles_launcher(folder):
    r = launch("--nproc_per_node", "2", script("show.sh", SHOW), "a", "--rank", "7")
    assert r.returncode == 0, r.stderr
    lines = r.stderr.splitlines()
    stamp = r"LAUNCH (INFO|WARNING|ERROR) \d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} "
    assert all(re.match(stamp, l) for l in lines), r.stderr
    text = [re.sub(stamp, "", l) for l in lines]
    assert text[0] == "-----------  Configuration  ----------------------"
    keys = [l.split(":")[0] for l in text[1:text.index("-" * 50)]]
    assert keys == sorted(keys) and len(keys) == 30       # 3.3.1's block
    assert "nproc_per_node: 2" in text and "training_script_args: ['a', '--rank', '7']" in text
    assert "Job: default, mode collective, replicas 1[1:1], elastic False" in text
    pod = re.search(r"Run Pod: ([a-z]{6}), replicas 2, status ready", r.stderr).group(1)
    assert f"Watching Pod: {pod}, replicas 2, status running" in text
    assert text[-2:] == ["Pod completed", "Exit code 0"]
    # rank 0 alone is shown; each has its file, with both streams
    assert "rank 0 of 2 args a --rank 7\nto stderr\n" in r.stdout and "rank 1" not in r.stdout
    assert "rank 1 of 2 args a --rank 7\nto stderr\n" in log("workerlog.1")
    assert sorted(os.listdir("log")) == [f"default.{pod}.log", "envlog.0", "envlog.1", "workerlog.0", "workerlog.1"]
    assert "PADDLE_GLOBAL_RANK=1\n" in log("envlog.1")


def test_logs_are_appended_to_and_overwritten_when_asked():
    show = script("show.sh", SHOW)
    for _ in range(2):
        assert launch("--log_dir", "deep/er", show).returncode == 0
    assert log("workerlog.0", "deep/er").count("rank 0") == 2
    r = launch("--log_dir", "deep/er", "--log_overwrite", "1", show)
    assert log("workerlog.0", "deep/er").count("rank 0") == 1 and r.stdout.count("rank 0") == 1
    r = launch("--log_dir", "", show)                    # Paddle's launcher ends with a traceback here
    assert "rank 0" in r.stdout and "to stderr" in r.stderr and r.returncode == 0


@pytest.mark.parametrize("compat", ["3", "2.3"])
def test_a_jobs_id_may_have_slashes(compat):
    r = launch("--compat", compat, "--job_id", "team/job", script("show.sh", SHOW))
    assert r.returncode == 0 and "WARNING" not in r.stderr, r.stderr
    assert any(f.startswith("job.") for f in os.listdir("log/team"))


@pytest.mark.parametrize("compat", ["3", "2.3"])
def test_a_jobs_id_does_not_lead_out_of_the_log_dir(compat):
    before = set(os.listdir(".."))
    r = launch("--compat", compat, "--job_id", "../../out/job", script("show.sh", SHOW))
    assert r.returncode == 0 and "WARNING" not in r.stderr, r.stderr
    assert any(f.startswith(".._.._out_job.") for f in os.listdir("log")) and not os.path.exists("../out") and set(os.listdir("..")) == before


def test_the_output_is_that_of_paddles_launcher():
    r = launch("--server_num=1", "--worker_num", "2", script("show.sh", SHOW))
    assert r.returncode == 0
    assert r.stdout.startswith("-----------  Configuration Arguments -----------\ngpus: None\n")
    assert "Run parameter-sever mode. pserver arguments:['--worker_num', '--server_num']" in r.stderr
    for line in (r"INFO .* launch_utils.py:973\] Local server start 1 processes. First process distributed environment "
                 r"info \(Only For Debug\): $",
                 r"^    \|                        Distributed Envs                      Value                    \|$",
                 r"^    \|                           TRAINING_ROLE                     PSERVER                   \|$",
                 r"Local worker start 2 processes", r"all workers exit, going to finish parameter server",
                 r"all parameter server are killed"):
        assert re.search(line, r.stderr, re.M), line
    assert sorted(os.listdir("log")) == ["serverlog.0", "workerlog.0", "workerlog.1"]
    r = launch("--compat", "2.3", "--log_dir", "old", script("show.sh", SHOW))
    pod = re.search(r"Run Pod: ([a-z]{6}),", r.stderr).group(1)
    assert sorted(os.listdir("old")) == [f"default.{pod}.0.log", f"default.{pod}.log"]
    r = launch("--compat", "legacy", "--log_dir", "legacy", "--nproc_per_node", "2", script("show.sh", SHOW))
    assert re.fullmatch(r"PADDLE_TRAINER_ENDPOINTS: \n127.0.0.1:\d+\n127.0.0.1:\d+\n", log("endpoints.log", "legacy"))


def test_a_server_that_is_killed_is_named_as_a_server():
    """The first line is what people read: it must not send them to a trainer's log."""
    r = launch("--server_num=2", "--worker_num=1", script("killed.sh", """#!/bin/sh
[ "$TRAINING_ROLE" = TRAINER ] && exec sleep 1000
[ "$PADDLE_PORT" = "${PADDLE_PSERVERS_IP_PORT_LIST##*:}" ] && kill -9 $$
exec sleep 1000
"""))
    said = "Out of all 2 servers, the server process with rank=[1] was aborted. Please check its log. (server 1: killed by SIGKILL"
    assert r.returncode == 137 and said in r.stderr, (r.returncode, r.stderr)


def test_heterogeneous_workers_end_with_the_trainers():
    """They serve, as servers do; the trainers are the first stage, they the ones behind it."""
    serve = script("serve.sh", '#!/bin/sh\necho "stage $STAGE_ID of $STAGE_NUM, $HETER_DEVICE_TYPE, '
                               'next <$PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST>"\n'
                               '[ "$TRAINING_ROLE" != TRAINER ] || until [ -s log/heterlog.2 ]; do sleep 0.02; done\n'
                               '[ "$TRAINING_ROLE" = TRAINER ] || exec sleep 1000\n')
    r = launch("--server_num=1", "--worker_num=2", "--heter_worker_num=2;1", "--heter_devices=cpu;gpu", serve)
    assert r.returncode == 0, r.stderr
    assert re.fullmatch(r"stage 1 of 3, cpu, next <127.0.0.1:\d+,127.0.0.1:\d+>\n", log("workerlog.1"))
    assert log("heterlog.2") == "stage 3 of 3, gpu, next <>\n"
    assert sorted(os.listdir("log")) == ["heterlog.0", "heterlog.1", "heterlog.2", "serverlog.0", "workerlog.0", "workerlog.1"]
    assert re.search(r"Local heter_worker start 3 processes(.*\n)*.*all heter_worker are killed\n.*all parameter server are killed",
                     r.stderr), r.stderr
    r = launch("--server_num=1", "--worker_num=1", "--heter_worker_num=1;1", "--heter_devices=cpu", serve)
    assert r.returncode != 0 and '--heter_devices is "cpu", but there is a stage 3' in r.stderr


@pytest.mark.parametrize("env,lines", [
    ("CUDA_VISIBLE_DEVICES=4,5", ["FLAGS_selected_gpus=0", "FLAGS_selected_gpus=1"]),
    ("CUDA_VISIBLE_DEVICES=none", ["PADDLE_DISTRI_BACKEND=gloo"]),
    ("HIP_VISIBLE_DEVICES=4", ["FLAGS_selected_gpus=0"]),
    ("XPU_VISIBLE_DEVICES=4", ["FLAGS_selected_xpus=0"]),
    ("ASCEND_RT_VISIBLE_DEVICES=4,5", ["FLAGS_selected_npus=0", "PADDLE_DISTRI_BACKEND=xccl", "PADDLE_XCCL_BACKEND=npu",
                                       "FLAGS_selected_npus=1", "PADDLE_DISTRI_BACKEND=xccl", "PADDLE_XCCL_BACKEND=npu"]),
])
def test_processes_know_their_devices(env, lines):
    name, value = env.split("=")
    r = launch("--dry_run", "t.sh", env={name: value})
    assert [line.strip() for line in r.stdout.splitlines() if re.search("FLAGS_selected|_BACKEND=", line)] == lines, r.stdout


def test_dry_run_prints_every_childs_environment():
    r = launch("--dry-run", "--server_num", "1", "--trainer_num", "2", "train.py")
    assert r.returncode == 0 and r.stdout.count("    TRAINING_ROLE=TRAINER") == 2
    assert "\nserver 0, log serverlog.0\n" in r.stdout and "\nworker 1, log workerlog.1\n" in r.stdout
    assert SECRET not in r.stdout and not os.path.exists("log")


def test_the_launcher_runs_under_its_other_names(folder):
    show = script("show.sh", SHOW)
    os.symlink(BIN / "paddlerun", "fleetrun")
    r = subprocess.run(["./fleetrun", "--log_dir", "one", show], capture_output=True, text=True, timeout=60)
    assert "rank 0 of 1" in r.stdout and r.returncode == 0, r.stderr
    wheel = subprocess.run([ROOT / "python/wheel", "v1.2", "."], capture_output=True, text=True, check=True).stdout.strip()
    (folder / "who.py").write_text("import sys; print('with', sys.executable)")
    env = {**os.environ, "PYTHONPATH": wheel, "PATH": f"{BIN}:{os.environ['PATH']}"}
    r = subprocess.run([sys.executable, "-m", "paddlerun", "--log_dir", "two", "who.py"], env=env, capture_output=True,
                       text=True, timeout=60)
    assert r.returncode == 0 and f"with {sys.executable}\n" in r.stdout, r.stderr


@pytest.mark.parametrize("words, code, message", [
    (["ok.sh"], 0, ""),
    (["--nproc_per_node=2", "fail.sh"], 3, r"about to fail\nValueError: no such data\nworker 1: exit code 3: ValueError: no such data\n"),
    (["--nproc_per_node=2", "--log_dir=", "fail.sh"], 3, r"ValueError: no such data\nworker 1: exit code 3: ValueError: no such data\n"),
    (["killed.sh"], 137, r"worker 0: killed by SIGKILL\n"),
    (["/no/such/program"], 127, r'cannot start "/no/such/program": .*No such file or directory\n'),
    (["--master=192.0.2.1:9", "--nnodes=2", "--host=127.0.0.1", "--join_timeout=300ms", "ok.sh"], 1,
     r"the job's nodes did not meet within 0.3 s: .*\n"),
])
def test_the_termination_log_names_the_cause(folder, words, code, message):
    """The file that Kubernetes shows; a job's status has its last line."""
    script("ok.sh", SHOW)
    script("fail.sh", "#!/bin/sh\n[ $PADDLE_TRAINER_ID = 1 ] || exec sleep 60\necho about to fail\n"
                      "echo ValueError: no such data >&2\nexit 3\n")
    script("killed.sh", "#!/bin/sh\nkill -9 $$\n")
    words[-1] = words[-1] if words[-1].startswith("/") else f"./{words[-1]}"
    why = folder / "termination-log"
    why.touch()
    assert launch(f"--termination_log={why}", *words).returncode == code
    assert re.fullmatch(message, why.read_text()), why.read_text()


@pytest.mark.parametrize("words", [[], ["--log_dir="], ["--server_num=1", "--trainer_num=1"]])
def test_a_launcher_that_was_stopped_says_so(folder, words):
    """And nothing that its children printed: kubelet would show the end of this process's log as the cause."""
    why = folder / "termination-log"
    why.touch()
    p = start(f"--termination_log={why}", *words, script("stay.sh", "#!/bin/sh\necho pid $$ | tee pid.$$\nexec sleep 60\n"))
    wait_for(lambda: glob.glob("pid.*"))
    p.terminate()
    p.communicate(timeout=60)
    assert p.returncode == 143 and why.read_text() == "stopped by SIGTERM\n"


FAILS_AS_SAID = """#!/bin/sh
echo "I am $PADDLE_TRAINER_ID"
while [ ! -e go ]; do sleep 0.05; done
[ $PADDLE_TRAINER_ID = 0 ] && exit 9
until [ -e first ]; do sleep 0.05; done
echo "ValueError: of worker 1" >&2
exit 3
"""


@pytest.mark.parametrize("words,env", [
    ([], lambda i: pod("TRAINER", i)),
    (["--run_mode=collective"], lambda i: {"PADDLE_TRAINER_ID": str(i), "PADDLE_TRAINER_ENDPOINTS": "127.0.0.2:36000,127.0.0.3:36000",
                                           "POD_IP": f"127.0.0.{i + 2}"}),
    (["--ips=127.0.0.2,127.0.0.3"], lambda i: {"PADDLE_RANK": str(i)}),
], ids=["servers", "endpoints", "ips"])
def test_pods_share_a_folder_for_logs(folder, words, env):
    """A claim that all pods mount: each echoes its own lines, cuts nobody's file, and names its own cause."""
    fail = script("fail.sh", FAILS_AS_SAID)
    for i in range(2):
        (folder / f"why{i}").touch()
    pods = [start("--log_dir=shared/log", "--log_overwrite=True", f"--termination_log=why{i}", *words, fail, env=env(i)) for i in range(2)]
    wait_for(lambda: sum("I am" in pathlib.Path(f).read_text() for f in glob.glob("shared/log/*/workerlog.0")) == 2)
    (folder / "go").touch()
    out0 = pods[0].communicate(timeout=60)[0]
    (folder / "first").touch()
    out1 = pods[1].communicate(timeout=60)[0]
    assert [p.returncode for p in pods] == [9, 3]
    assert "I am 0" in out0 and "I am 1" not in out0 and "I am 1" in out1 and "I am 0" not in out1
    assert (folder / "why0").read_text() == "I am 0\nworker 0: exit code 9: I am 0\n"
    assert (folder / "why1").read_text() == "I am 1\nValueError: of worker 1\nworker 1: exit code 3: ValueError: of worker 1\n"
    own = sorted(glob.glob("shared/log/*/workerlog.0"))
    assert len(own) == 2 and os.readlink("shared/log/workerlog.0") == os.path.relpath(own[0], "shared/log")


def test_two_launchers_share_a_folder_for_logs(folder):
    """Two trainings in one directory: as pods that share a claim, and the folder is free again once the first one has ended."""
    fail = script("fail.sh", FAILS_AS_SAID.replace("PADDLE_TRAINER_ID", "ME"))
    for i in range(2):
        (folder / f"why{i}").touch()
    words = ["--log_overwrite=True", fail]
    first = start("--termination_log=why0", *words, env={"ME": "0"})
    wait_for(lambda: os.path.exists("log/workerlog.0") and "I am 0" in log("workerlog.0"))
    second = start("--termination_log=why1", *words, env={"ME": "1"})
    wait_for(lambda: any("I am 1" in pathlib.Path(f).read_text() for f in glob.glob("log/*/workerlog.0")))
    (folder / "go").touch()
    out0 = first.communicate(timeout=60)[0]
    (folder / "first").touch()
    out1, err1 = second.communicate(timeout=60)
    assert "I am 0" in out0 and "I am 1" not in out0 and "I am 1" in out1 and "I am 0" not in out1
    assert (folder / "why1").read_text().startswith("I am 1\n") and "I am 1" not in (folder / "why0").read_text()
    own = os.path.dirname(glob.glob("log/*/workerlog.0")[0])
    assert f'log_dir "log" has the files of another launcher that runs, those of this one are in "{own}"' in err1, err1
    assert launch(script("show.sh", SHOW)).returncode == 0 and "rank 0" in log("workerlog.0")


SILENT_DNS = """import os, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 53))
if os.fork() == 0:
    s.recv(1)                                            # the question, which stays without an answer
    open("asked", "w").close()
    s.recv(1)
    s.recv(1)
    os._exit(0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


def test_the_first_process_handles_a_signal_while_it_looks_names_up(folder):
    """The kernel hands a pod's PID 1 only signals that it has handlers for."""
    for name, text in {"resolv.conf": "nameserver 127.0.0.1\noptions timeout:20\n", "hosts": "127.0.0.1 localhost\n",
                       "why": "", "dns.py": SILENT_DNS}.items():
        (folder / name).write_text(text)
    prepare = ("ip link set lo up; for f in resolv.conf hosts; do mount --bind $f /etc/$f; done; hostname nowhere.example; "
               "exec unshare --pid --fork --kill-child \"$@\"")
    p = subprocess.Popen(["unshare", "--net", "--uts", "--mount", "sh", "-ec", prepare, "sh", sys.executable, "dns.py", *LAUNCH,
                          "--nnodes=2", "--master=x.example:1", "--termination_log=why", "train.py"])
    wait_for(lambda: os.path.exists("asked"))
    first = int(pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()[0])
    os.kill(first, signal.SIGTERM)
    assert p.wait(60) == 143 and (folder / "why").read_text() == "stopped by SIGTERM\n"


def test_a_pods_grace_period_is_the_trainings(folder):
    """What an operator gives a launcher is the time that a program has to save."""
    stays = script("stay.sh", "#!/bin/sh\ntrap '' TERM\necho pid $$\nwhile :; do sleep 0.05; done\n")
    p = start(stays, env={"PADDLERUN_STOP_TIMEOUT": "1"})
    pids = started(1)
    p.terminate()
    _, err = p.communicate(timeout=60)
    assert p.returncode == 143 and "1 process did not end after SIGTERM: SIGKILL" in err and not any(alive(x) for x in pids), err


def test_http_proxy_is_unset_for_children():
    show = script("env.sh", "#!/bin/sh\nenv\n")
    r = launch(show, env={"http_proxy": "http://p:1", "HTTP_PROXY": "x"})
    assert "http_proxy_original=http://p:1" in r.stdout and "\nhttp_proxy=" not in r.stdout
    assert f"MY_TOKEN={SECRET}" in r.stdout              # the child's own printing: it has the whole environment


# ---- parameter servers ------------------------------------------------------------------------

PS = """#!/bin/sh
echo "pid $$"
echo "$TRAINING_ROLE $PADDLE_TRAINER_ID at $POD_IP:$PADDLE_PORT"
[ "$TRAINING_ROLE" = PSERVER ] && exec sleep 1000
exec sleep ${1:-0.3}
"""


@pytest.mark.parametrize("words", [["--run_mode", "ps"], ["--server_num", "2", "--trainer_num", "2"],
                                   ["--servers=127.0.0.1:8101", "--trainers=127.0.0.1:8102,127.0.0.1:8103"]])
def test_servers_end_when_workers_are_done(words):
    r = launch(*words, script("ps.sh", PS))
    assert r.returncode == 0, r.stderr
    assert "Pod completed" in r.stderr and "mode ps" in r.stderr
    assert not any(alive(p) for p in started(2))


def pod(role, index, **more):
    """What paddle-operator gives a pod of a job with one server and two workers."""
    return {"POD_IP": "127.0.0.1", "PADDLE_PORT": "36000", "PADDLE_TRAINER_ID": str(index), "TRAINING_ROLE": role,
            "PADDLE_TRAINING_ROLE": role, "TRAINER_PORTS_NUM": "20", "PADDLE_TRAINERS_NUM": "2",
            "PADDLE_TRAINERS": "127.0.0.2,127.0.0.3", "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:36000",
            "PADDLE_TRAINER_ENDPOINTS": "127.0.0.2:36000,127.0.0.3:36000", **more}


@pytest.mark.parametrize("words", [[], ["--run_mode", "ps"]])
def test_pods_of_a_job_with_servers(words):
    """Under Paddle's own launcher these pods wait for each other for ever."""
    ps = script("ps.sh", PS)
    with Teller() as operator:
        server = start(*words, "--log_dir", "s", ps, env=pod("PSERVER", 0, **operator.env))
        alone = start(*words, "--log_dir", "t", ps, env=pod("PSERVER", 0))
        for i in range(2):
            r = launch(*words, "--log_dir", f"w{i}", ps, env=pod("TRAINER", i, POD_IP=f"127.0.0.{i + 2}"))
            assert r.returncode == 0 and f"TRAINER {i} at 127.0.0.{i + 2}:36000" in r.stdout, r.stderr
        for folder in "st":
            started(1, folder)
        assert server.poll() is None and alone.poll() is None
        operator.over.set()
        out, err = server.communicate(timeout=60)
    assert "PSERVER 0 at 127.0.0.1:36000" in out and "training is over" in err and server.returncode == 0, err
    alone.send_signal(signal.SIGTERM)                     # by an operator that nobody asks
    out, err = alone.communicate(timeout=60)
    assert "PSERVER 0 at 127.0.0.1:36000" in out and alone.returncode == 143, err


def test_pods_of_a_collective_job():
    show = script("env.sh", "#!/bin/sh\nenv | grep ^PADDLE_\n")
    env = {"POD_IP": "127.0.0.2", "PADDLE_TRAINER_ID": "1", "TRAINER_PORTS_NUM": "20",
           "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:36000,127.0.0.2:36000", "PADDLE_TRAINERS_NUM": "2"}
    r = launch("--nproc_per_node", "2", show, env=env)
    assert r.returncode == 0 and "args reset by env PADDLE_TRAINER_ENDPOINTS\n['127.0.0.1:36000', " in r.stderr
    for line in ("PADDLE_TRAINER_ID=3", "PADDLE_CURRENT_ENDPOINT=127.0.0.2:36001", "PADDLE_TRAINERS_NUM=4",
                 "PADDLE_NNODES=2", "PADDLE_MASTER=127.0.0.1:36000"):
        assert f"{line}\n" in log("workerlog.1")


def test_pods_of_kubeflows_operator():
    """Masters are given a number of servers, workers one of trainers: neither has any of the other."""
    ps = script("ps.sh", PS)
    common = {"PADDLE_MASTER": f"127.0.0.1:{free_port()}", "PADDLE_NNODES": "2", "PADDLE_JOB_ID": "j"}
    done = finish([start("--log_dir", "m", ps, env={**common, "POD_IP": "127.0.0.1", "PADDLE_SERVER_NUM": "1"}),
                   start("--log_dir", "w", ps, env={**common, "POD_IP": "127.0.0.2", "PADDLE_TRAINER_NUM": "1"})])
    assert [d[0] for d in done] == [0, 0], done
    assert [f for f in sorted(os.listdir("m")) if "erlog" in f] == ["serverlog.0"]
    assert [f for f in sorted(os.listdir("w")) if "erlog" in f] == ["workerlog.0"]


# ---- several nodes ----------------------------------------------------------------------------


def nodes(n, *words, each=lambda i: [], more=lambda i: {}):
    master = f"127.0.0.1:{free_port()}"
    return [start("--nnodes", str(n), "--master", master, "--log_dir", f"n{i}", *each(i), *words,
                  env={"POD_IP": f"127.0.0.{i + 1}", **more(i)}) for i in range(n)]


def finish(launchers, seconds=100):
    out = [p.communicate(timeout=seconds) for p in launchers]
    return [(p.returncode, *o) for p, o in zip(launchers, out)]


def test_nodes_meet():
    show = script("show.sh", SHOW)
    done = finish(nodes(3, "--nproc_per_node", "2", show, each=lambda i: ["--rank", str(2 - i)]))
    assert [d[0] for d in done] == [0, 0, 0], done
    for i in range(3):
        assert f"rank {2 * (2 - i) + 1} of 6" in log("workerlog.1", f"n{i}")


@pytest.mark.parametrize("asked", [True, False])
def test_nodes_prove_the_token_where_they_meet(asked):
    """By the option or the variable; without them the log says that the port is open."""
    show = script("show.sh", SHOW)
    done = finish(nodes(2, show, each=lambda i: ["--require_token"] if asked and i else [],
                        more=lambda i: {"PADDLE_JOB_TOKEN": "correct horse",
                                        **({"PADDLERUN_REQUIRE_TOKEN": "1"} if asked and not i else {})}))
    assert [d[0] for d in done] == [0, 0], done
    for _, _, err in done:
        assert ("The rendezvous is open to anybody" in err) != asked, err
        assert "correct horse" not in err


def test_a_node_with_another_token_ends_with_the_reason():
    ok = script("ok.sh", "#!/bin/sh\n")
    started = nodes(2, "--require_token", "--join_timeout", "20s", ok, each=lambda i: ["--rank", str(i)],
                    more=lambda i: {"PADDLE_JOB_TOKEN": f"token {i}"})
    done = finish(started)
    assert [d[0] for d in done] == [1, 1], done
    for _, _, err in done:      # who serves says whom it refused, the other why it ends
        assert "the token is not this job's (PADDLE_JOB_TOKEN must be the same on all nodes)" in err


def test_servers_stay_until_all_nodes_workers_are_done():
    ps = script("ps.sh", PS)
    done = finish(nodes(2, ps, "", each=lambda i: ["--server_num", str(1 - i), "--trainer_num", str(i)]))
    assert [d[0] for d in done] == [0, 0], done
    done = finish(nodes(2, "--run_mode", "ps", script("slow.sh", PS.replace(
        "exec sleep ${1:-0.3}", 'exec sleep "$PADDLE_TRAINER_ID.2"'))))
    assert [d[0] for d in done] == [0, 0], done


def test_a_node_that_fails_ends_the_others():
    bad = script("bad.sh", '#!/bin/sh\necho "pid $$"\n[ "$PADDLE_TRAINER_ID" = 1 ] && { sleep 0.5; exit 7; }\nexec sleep 1000\n')
    launchers = nodes(2, bad, each=lambda i: ["--rank", str(i)])
    done = finish(launchers)
    assert done[1][0] == 7 and done[0][0] == 1, done
    assert "worker 1: exit code 7" in done[0][2]         # with its cause


def test_a_node_that_stands_still_is_named_at_once_and_lost_later():
    """As a machine without power or network: the launcher and all its children are stopped."""
    stay = script("stay.sh", '#!/bin/sh\necho "pid $$"\nexec sleep 1000\n')
    going, stopped = nodes(2, "--silent_timeout=4s", stay, each=lambda i: ["--rank", str(i)])
    started(1, "n0")
    pids = started(1, "n1") + [stopped.pid]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        code, _, err = finish([going], 60)[0]
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        stopped.communicate(timeout=60)
    assert code == 1
    who = r"(the master at 127.0.0.1:|node \w+ \(rank 1, 127.0.0.2\))"      # whoever was first serves
    assert re.search(rf"WARNING .* silent for a second: .*{who}", err), err
    assert re.search(rf"ERROR .*{who}.* (has been silent for 4.0 s|is gone: .* does not answer within 6.0 s)", err), err


LISTS = """import os, socket, sys, time
s = socket.socket()
if os.environ["TRAINING_ROLE"] == "PSERVER":
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((os.environ["POD_IP"], int(os.environ["PADDLE_PORT"])))
    s.listen()
    kept = []
    while True:
        kept.append(s.accept())

def connect(endpoint):
    while True:
        try:
            return socket.create_connection(endpoint.rsplit(":", 1))
        except ConnectionRefusedError:
            time.sleep(0.05)

all = [connect(e) for e in os.environ["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")]
me = int(os.environ["PADDLE_TRAINER_ID"])
open(f"connected{me}", "w").close()
while not os.path.exists(f"connected{1 - me}"):     # however late the other one begins
    time.sleep(0.05)
time.sleep(me * 2)
"""


def test_servers_of_lists_end_when_nobody_is_connected():
    """Launchers that were given all addresses do not meet; Paddle's wait for ever here."""
    pathlib.Path("lists.py").write_text(LISTS)
    a, b = free_port(), free_port()
    words = [f"--servers=127.0.0.2:{a},127.0.0.3:{b}", "--trainers=127.0.0.2:1,127.0.0.3:1", "lists.py"]
    done = finish([start("--log_dir", f"n{i}", *words, env={"POD_IP": f"127.0.0.{i}"}) for i in (2, 3)])
    assert [d[0] for d in done] == [0, 0], done
    assert "no worker has been connected to the servers of this node for 5 s" in done[0][2]


# At its first start rank 1 fails, once rank 0 is there to be notified.
ONCE = """#!/bin/sh
echo "rank $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM"
mkdir "first$PADDLE_TRAINER_ID" 2>/dev/null || exec sleep 0.5
[ "$PADDLE_TRAINER_ID" = 0 ] && exec sleep 1000
while [ ! -e first0 ]; do sleep 0.02; done
exit 9
"""


def test_all_start_again_when_a_worker_fails():
    once = script("once.sh", ONCE)
    done = finish(nodes(2, "--elastic_level", "1", once, each=lambda i: ["--rank", str(i)]))
    assert [d[0] for d in done] == [0, 0], done
    for i in range(2):
        assert log("workerlog.0", f"n{i}") == f"rank {i} of 2\n" * 2
        assert "nodes changed, starting again" in done[i][2] and "Pod completed" in done[i][2], done[i][2]


TORCH = """#!/bin/sh
echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $TORCHELASTIC_RUN_ID $TORCHELASTIC_RESTART_COUNT"
[ "$MASTER_ADDR:$MASTER_PORT" = "$PADDLE_MASTER" ] || echo "meets at $MASTER_ADDR:$MASTER_PORT"
mkdir "first$RANK" 2>/dev/null || exec sleep 0.5
[ "$RANK" = 0 ] && exec sleep 1000
while [ ! -e first0 ]; do sleep 0.02; done
exit 9
"""


def test_programs_for_torchrun_find_their_variables():
    torch = script("torch.sh", TORCH)
    done = finish(nodes(2, "--elastic_level", "1", "--job_id", "digits", torch, each=lambda i: ["--rank", str(i)]))
    assert [d[0] for d in done] == [0, 0], done
    for i in range(2):
        assert log("workerlog.0", f"n{i}") == f"{i} 0 2 1 {i} digits 0\n{i} 0 2 1 {i} digits 1\n"


def test_a_users_own_variables_for_torchrun_stay():
    r = launch("--nproc_per_node", "2", "--log_dir=", script("torch.sh", 'echo "$RANK $MASTER_ADDR:$MASTER_PORT $WORLD_SIZE"'),
               env={"MASTER_PORT": "29500", "WORLD_SIZE": "8", "RANK": "5"})
    assert sorted(r.stdout.splitlines()[-2:]) == ["0 :29500 8", "1 :29500 8"], r.stdout


def test_a_joining_node_renumbers_all_ranks():
    master = f"127.0.0.1:{free_port()}"
    words = ["--nnodes", "1:2", "--elastic_timeout", "1", "--elastic_level", "1", "--master", master]
    talk = script("talk.sh", '#!/bin/sh\necho "pid $$ rank $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM"\n'
                             '[ "$PADDLE_TRAINERS_NUM" = 2 ] || exec sleep 1000\n')
    first = start(*words, "--log_dir", "n0", talk, env={"POD_IP": "127.0.0.1"})
    wait_for(lambda: "of 1" in "".join(log(f, ".") for f in glob.glob("n0/workerlog.0")))
    second = start(*words, "--log_dir", "n1", talk, env={"POD_IP": "127.0.0.2"})
    done = finish([first, second])
    assert [d[0] for d in done] == [0, 0], done
    assert "of 2" in log("workerlog.0", "n0") and "of 2" in log("workerlog.0", "n1")


SAVES = """#!/bin/sh
trap 'echo "saved by $PADDLE_TRAINER_ID"; exit 0' TERM
echo "pid $$"
echo "rank $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM"
while [ ! -e end ]; do sleep 0.05; done
"""


def test_pods_of_an_elastic_job_follow_its_scale():
    """As the operator makes and deletes them; a pod that is asked to go costs nobody a restart, of which there is none here."""
    master = f"127.0.0.1:{free_port()}"
    saves = script("saves.sh", SAVES)

    def pod(i):
        env = {"PADDLE_ELASTIC_JOB_ID": "ns-j", "PADDLE_ELASTIC_NP": "1:3", "PADDLE_ELASTIC_TIMEOUT": "1",
               "PADDLE_TRAINER_ID": str(i), "POD_IP": f"127.0.0.{i + 1}"}
        return start("--master", master, "--max_restart=0", "--log_dir", f"n{i}", saves, env=env)

    def runs(i, n, text=""):
        return wait_for(lambda: glob.glob(f"n{i}/workerlog.0") and log("workerlog.0", f"n{i}").endswith(f"rank {i} of {n}\n"), 60,
                        lambda: [log(f, ".") for f in glob.glob("n*/workerlog.0")])

    pods = [pod(0)]
    runs(0, 1)
    for n in (2, 3):
        pods.append(pod(n - 1))
        for i in range(n):
            runs(i, n)
    gone = pods.pop()
    gone.terminate()
    _, err = gone.communicate(timeout=60)
    assert gone.returncode == 143, err
    for i in range(2):
        runs(i, 2)
    assert "saved by 1" in log("workerlog.0", "n1") and "saved by 2" in log("workerlog.0", "n2")
    pathlib.Path("end").touch()
    done = finish(pods, 60)
    assert [d[0] for d in done] == [0, 0], done
    assert "left: stopped by SIGTERM" in done[0][2]


def test_worker_0_of_an_elastic_job_is_replaced():
    """Where all meet, by its address: without it the others hold, say why, and continue when it is there again, or end."""
    port, saves = free_port(), script("saves.sh", SAVES)
    wire = Wire(port)                    # an address of another machine: nobody else can serve there

    def pod(i, folder, *more):
        env = {"PADDLE_ELASTIC_JOB_ID": "ns-j", "PADDLE_ELASTIC_NP": "1:3", "PADDLE_ELASTIC_TIMEOUT": "1",
               "PADDLE_TRAINER_ID": str(i), "POD_IP": f"127.0.0.{i + 1}"}
        return start("--master", wire.address if i else f"127.0.0.1:{port}", "--max_restart=0", "--log_dir", folder, *more, saves, env=env)

    def run(folders):
        for i, f in enumerate(folders):
            wait_for(lambda: glob.glob(f"{f}/workerlog.0") and log("workerlog.0", f).endswith(f"rank {i} of {len(folders)}\n"), 60,
                     lambda: [log(f, ".") for f in glob.glob("n*/workerlog.0")])

    pods = [pod(0, "n0"), pod(1, "n1"), pod(2, "n2", "--join_timeout", "60s")]
    run(["n0", "n1", "n2"])
    pods[0].kill()
    pods[0].communicate()
    for i in (1, 2):
        wait_for(lambda: f"saved by {i}" in log("workerlog.0", f"n{i}"), 60)
    pods[0] = pod(0, "n0-again")
    run(["n0-again", "n1", "n2"])
    pods[0].kill()
    pods[0].communicate()
    pods[1].terminate()                  # does not wait for it
    _, err = pods[1].communicate(timeout=60)
    assert pods[1].returncode == 143 and re.search(r"the master at \S+ is gone", err), err
    pods[2].terminate()
    pods[2].communicate(timeout=60)
    wire.close()


def test_worker_0_that_does_not_return_is_waited_for_so_long():
    port, saves = free_port(), script("saves.sh", SAVES)
    wire = Wire(port)
    words = ["--nnodes", "1:2", "--elastic_timeout", "1", "--elastic_level", "1", "--join_timeout", "12s"]
    first = start(*words, "--master", f"127.0.0.1:{port}", "--log_dir", "n0", saves, env={"POD_IP": "127.0.0.1"})
    second = start(*words, "--master", wire.address, "--log_dir", "n1", saves, env={"POD_IP": "127.0.0.2"})
    wait_for(lambda: "of 2\n" in "".join(log(f, ".") for f in glob.glob("n1/workerlog.0")), 60)
    first.kill()
    first.communicate()
    _, err = second.communicate(timeout=120)
    assert second.returncode and f"did not meet within 12 s: the master at {wire.address} is not there: " in err, err
    wire.close()


# ---- the end ----------------------------------------------------------------------------------

FAIL = """#!/bin/sh
echo "pid $$"
if [ "$PADDLE_TRAINER_ID" = 1 ]; then until [ -e go ]; do sleep 0.05; done; echo "the cause"; {how}; fi
exec sleep 1000
"""


@pytest.mark.parametrize("how,code,said", [("exit 3", 3, "code 3"), ("kill -9 $$", 137, "code -9"),
                                           ("kill -SEGV $$", 139, "code -11")])
def test_the_first_failure_decides(how, code, said):
    p = start("--nproc_per_node", "3", script("fail.sh", FAIL.replace("{how}", how)))
    pids = started(3)
    pathlib.Path("go").touch()
    out, err = p.communicate(timeout=60)
    assert p.returncode == code
    assert re.search(rf"LAUNCH ERROR .* Container failed !!!\nContainer rank 1 status failed cmd \['./fail.sh'\] {said} "
                     r"log log/workerlog.1\n", err), err
    assert "ERROR LOG DETAIL" in err and "the cause" in out
    assert not any(alive(x) for x in pids)
    everything = out + err + "".join(pathlib.Path(f).read_text() for f in glob.glob("log/*"))
    assert SECRET not in everything                      # Paddle's launcher writes the whole environment


def test_a_missing_script_is_one_line():
    r = launch("./nowhere.sh")
    assert r.returncode == 127 and 'cannot start "./nowhere.sh"' in r.stderr


@pytest.mark.parametrize("signo,code", [(signal.SIGTERM, 15), (signal.SIGINT, 2)])
def test_a_stop_signal_ends_all(signo, code):
    p = start("--nproc_per_node", "3", script("sleep.sh", '#!/bin/sh\necho "pid $$"\nsleep 1000 &\nwait\n'))
    pids = started(3)
    p.send_signal(signo)
    _, err = p.communicate(timeout=60)
    assert p.returncode == 128 + code
    assert f"Terminating with signal {code}" in err and f"Exit with signal {code}" in err
    assert not any(alive(x) for x in pids)


@pytest.mark.parametrize("words, said", [
    (["--nnodes", "2", "--join_timeout", "300ms"], "paddlerun launch --master 10.88.99.7:"),
    (["--ips", "10.88.99.6,10.88.99.7", "--dry_run"], "PADDLE_CURRENT_ENDPOINT=10.88.99.7:6070"),
    (["--servers", "10.88.99.6:1", "--workers", "10.88.99.7:2", "--dry_run"], "TRAINING_ROLE=TRAINER"),
    (["--dry_run"], "PADDLE_CURRENT_ENDPOINT=127.0."),
])
def test_a_machine_whose_name_is_loopbacks_gives_others_a_better_address(words, said):
    """Debian's /etc/hosts has 127.0.1.1 for the machine's own name."""
    prepare = ("hostname localhost; ip link set lo up; ip link add d0 type veth peer name d1; ip link set d1 up; "
               "ip addr add 10.88.99.7/24 dev d0; ip link set d0 up; ip route add default dev d0; exec \"$@\"")
    r = subprocess.run(["unshare", "--net", "--uts", "sh", "-ec", prepare, "sh", *LAUNCH, *words, script("show.sh", SHOW)],
                       capture_output=True, text=True, timeout=60)
    assert said in r.stdout, r.stdout + r.stderr


@pytest.mark.parametrize("closed", [(0, 1, 2), (1,), (2,)])
def test_a_child_gets_open_streams_when_the_launcher_has_none(closed):
    """As of a daemon that closed all it had: its first files would be its stdout and stderr."""
    r = subprocess.run([*LAUNCH, "--servers=127.0.0.1:7001", "--trainers=127.0.0.1:7002", script("show.sh", SHOW)],
                       preexec_fn=lambda: [os.close(fd) for fd in closed], timeout=60)
    assert r.returncode == 0
    assert log("workerlog.0").endswith("rank 0 of 1 args \nto stderr\n")


POD = """apiVersion: v1
kind: Pod
metadata: {name: j-worker-0}
spec: {containers: [{image: i, command: [./stay.sh]}]}
"""


@pytest.mark.parametrize("words, env", [
    (["launch", "--nproc_per_node", "2", "./stay.sh"], {}),
    (["local", "pod.yaml"], {}),
    (["mpi", "--", "./stay.sh"], {"PMI_RANK": "0", "PMI_SIZE": "1", "MPI_LOCALRANKID": "1"}),
])
def test_ctrl_z_stops_all_until_it_continues(words, env):
    """A terminal sends SIGTSTP to the launcher's group only. In a group of this session: to one that no shell can continue it does nothing."""
    script("stay.sh", '#!/bin/sh\ntouch "pid.$$"\nwhile :; do sleep 0.05; done\n')
    pathlib.Path("pod.yaml").write_text(POD)
    p = subprocess.Popen([BIN / "paddlerun", *words], env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, preexec_fn=os.setpgrp)
    n = 2 if words[0] == "launch" else 1
    pids = wait_for(lambda: (lambda f: len(f) == n and [x[4:] for x in f])(glob.glob("pid.*")))
    p.send_signal(signal.SIGTSTP)
    assert os.WIFSTOPPED(os.waitpid(p.pid, os.WUNTRACED)[1])
    wait_for(lambda: {state_of(x) for x in pids} == {"T"})      # each is still to see the signal
    p.send_signal(signal.SIGCONT)
    wait_for(lambda: not {"T"} & {state_of(x) for x in pids})
    p.terminate()
    out, _ = p.communicate(timeout=60)
    assert p.returncode == 143 and not any(alive(x) for x in pids), out


@pytest.mark.parametrize("words", [[], ["--log_max_size", "1M"]])
def test_a_log_that_was_removed_is_shown(words):
    pathlib.Path("term").touch()
    r = launch("--termination_log", "term", *words, script("last.sh", '#!/bin/sh\nrm -r log\necho the cause\nexit 7\n'))
    assert r.returncode == 7 and 'log "log/workerlog.0" was removed, or replaced, while its process ran' in r.stderr, r.stderr
    assert "ERROR LOG DETAIL" in r.stderr and r.stdout.endswith("the cause\n")
    assert pathlib.Path("term").read_text() == "the cause\nworker 0: exit code 7: the cause\n"


def test_nohup_holds():
    """What was started to outlive its terminal does."""
    p = start(script("stay.sh", '#!/bin/sh\necho "pid $$"\nuntil [ -e go ]; do sleep 0.05; done\n'),
              preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    started(1)
    p.send_signal(signal.SIGHUP)
    pathlib.Path("go").touch()
    _, err = p.communicate(timeout=60)
    assert p.returncode == 0 and "Terminating" not in err, err


STUBBORN = """import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("pid", os.getpid(), flush=True)
time.sleep(1000)
"""


def test_a_program_starts_with_no_signal_blocked():
    pathlib.Path("mask.py").write_text('import signal\nprint("blocked", signal.pthread_sigmask(signal.SIG_BLOCK, []))\n')
    r = launch("mask.py")
    assert r.returncode == 0 and "blocked set()" in r.stdout, r.stdout + r.stderr


def test_a_child_that_ignores_sigterm_has_a_bound():
    pathlib.Path("stubborn.py").write_text(STUBBORN)
    p = start("--nproc_per_node", "2", "--stop_timeout", "0.5s", "stubborn.py")
    pids = started(2)
    p.terminate()
    _, err = p.communicate(timeout=60)
    assert p.returncode == 143
    assert "2 processes did not end after SIGTERM: SIGKILL" in err
    assert not any(alive(x) for x in pids)


@pytest.mark.parametrize("python", ["python3", "python", None])
@pytest.mark.parametrize("link", [False, True])
def test_the_interpreter_is_the_one_beside_the_program(folder, python, link):
    """Of the virtual environment that it was installed into, which PATH need not name."""
    home = folder / "venv/bin"
    home.mkdir(parents=True)
    shutil.copy(BIN / "paddlerun", home)
    if python:
        (home / python).write_text('#!/bin/sh\necho "beside: $*"\n')
        (home / python).chmod(0o755)
    (folder / "elsewhere").symlink_to(home / "paddlerun")
    pathlib.Path("who.py").write_text("print('of PATH')\n")
    r = subprocess.run(["./elsewhere" if link else home / "paddlerun", "launch", "who.py"], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0 and ("beside: -u who.py\n" if python else "of PATH\n") in r.stdout, r.stderr


def test_signals_are_handed_on():
    p = start(script("usr1.sh", '#!/bin/sh\ntrap "echo got it; exit 0" USR1\necho "pid $$"\nwhile :; do sleep 0.05; done\n'))
    started(1)
    p.send_signal(signal.SIGUSR1)
    out, _ = p.communicate(timeout=60)
    assert "got it" in out and p.returncode == 0


DAEMON = """import os, sys, time
print("pid", os.getpid(), flush=True)
heard, speaks = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("pid", os.getpid(), flush=True)
        os.write(speaks, b"x")
        time.sleep(1000)
    os._exit(0)
os.wait()
os.read(heard, 1)
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("code", [0, 5])
def test_daemons_of_the_program_are_ended(code):
    pathlib.Path("daemon.py").write_text(DAEMON)
    p = start("daemon.py", str(code))
    pids = started(2)
    p.communicate(timeout=60)
    assert p.returncode == code and not any(alive(x) for x in pids)


def test_a_killed_launcher_takes_its_children_along():
    p = start("--nproc_per_node", "2", script("sleep.sh", '#!/bin/sh\necho "pid $$"\nexec sleep 1000\n'))
    pids = started(2)
    p.kill()
    p.communicate()
    wait_for(lambda: not any(alive(x) for x in pids))


def test_children_share_the_cores():
    cores = script("cores.sh", "#!/bin/sh\ngrep Cpus_allowed_list /proc/self/status\n")
    r = launch("--nproc_per_node", "2", "--cpu_affinity", "spread", cores)
    shares = [log(f"workerlog.{i}").split(":")[1].strip() for i in range(2)]
    assert r.returncode == 0 and (shares[0] != shares[1] or len(os.sched_getaffinity(0)) == 1), shares


# ---- output -----------------------------------------------------------------------------------


def peak(pid):
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) / 1024


@pytest.mark.memory
@pytest.mark.parametrize("words", [[], ["--log_max_size", "20M"]])
def test_a_flood_is_shown_without_loss(words):
    """64 MiB at full speed, with a reader that comes late: all of it arrives, and memory stays bounded."""
    flood = script("flood.sh", '#!/bin/sh\nyes "line of a flood" | head -c 67108864\necho the end\n')
    p = start(*words, flood)
    time.sleep(0.3)
    n, last, most = 0, b"", 0
    while True:
        data = os.read(p.stdout.fileno(), 1 << 20)
        if not data:
            break
        n += len(data)
        last = (last + data)[-64:]
        try:
            most = max(most, peak(p.pid))
        except (FileNotFoundError, AttributeError):
            pass
    p.communicate(timeout=60)
    assert n == 67108864 + len("the end\n") and last.endswith(b"the end\n") and p.returncode == 0
    assert SANITIZED or most < 12, f"{most} MiB"
    if words:
        # The last lines may be those that filled the file before this one.
        assert os.path.getsize("log/workerlog.0") < 48 << 20 and os.path.getsize("log/workerlog.0.1") >= 20 << 20


def test_a_reader_that_went_away_does_not_stop_training():
    p = start(script("talk.sh", '#!/bin/sh\nfor i in 1 2 3 4 5 6; do echo "step $i"; sleep 0.1; done\n'))
    p.stdout.close()
    assert p.wait(60) == 0 and "step 6" in log("workerlog.0")
    p.stderr.close()


def test_a_fifo_that_nobody_reads_does_not_stop_the_launcher():
    os.mkdir("log")
    for name in ("workerlog.0", "envlog.0"):
        os.mkfifo(f"log/{name}")
    r = launch("--job_id=../../x", script("exit.sh", "#!/bin/sh\nexit 4\n"))
    assert r.returncode == 4, r.stderr
    assert r.stderr.count('LAUNCH WARNING') >= 2 and 'cannot write "log/workerlog.0": it is a FIFO that nobody reads' in r.stderr, r.stderr
    assert 'cannot write "log/envlog.0": it is a FIFO that nobody reads' in r.stderr, r.stderr
    assert [name for name in os.listdir("log") if name.startswith(".._.._x.")] and not glob.glob("../../x.*"), os.listdir("log")


def on_full_disk(*words):
    """The launcher with a log_dir on a disk of 64 KiB, in a mount namespace of its own."""
    os.makedirs("log", exist_ok=True)
    command = ["sh", "-c", 'mount -t tmpfs -o size=64k tmpfs log && exec "$@"', "sh", *LAUNCH, *words]
    return subprocess.run(["unshare", "-rm", *command], capture_output=True, text=True, timeout=60)


def test_a_full_disk_is_reported():
    talk = script("talk.sh", "#!/bin/sh\nhead -c 200000 /dev/zero | tr '\\0' x || exit 4\nexit 4\n")
    r = on_full_disk("--log_max_size", "1G", talk)       # written by the launcher: the child continues
    assert r.returncode == 4, r.stderr
    assert r.stderr.count('cannot write "log/workerlog.0": No space left on device: the child keeps running') == 1, r.stderr
    r = on_full_disk(talk)                               # written by the child, which may fail of it
    assert r.returncode == 4, r.stderr
    assert 'log_dir "log": no space left on its disk, which may be why' in r.stderr, r.stderr


def test_a_log_dir_that_cannot_be():
    pathlib.Path("file").write_text("")
    r = launch("--log_dir", "file/log", script("show.sh", SHOW))
    assert r.returncode == 0 and "rank 0 of 1" in r.stdout # the children then share our streams
    assert 'log_dir "file/log": cannot make "file/log": Not a directory' in r.stderr


def test_many_children_with_few_open_files():
    """The launcher takes what the hard limit allows; its children have the limit that it was started with."""
    words = ["--nproc_per_node", "40", script("limit.sh", "#!/bin/sh\nulimit -n\n")]
    r = limited("-Sn 64", *words)
    assert r.returncode == 0 and {log(f"workerlog.{i}") for i in range(40)} == {"64\n"}, r.stderr
    r = limited("-n 64", *words)
    assert r.returncode == 2 and "41 ports take 82 open files" in r.stderr.splitlines()[-1], r.stderr


def limited(limit, *words):
    return subprocess.run(["bash", "-c", f'ulimit {limit}; exec "$@"', "bash", *LAUNCH, *words], capture_output=True,
                          text=True, timeout=60)


def test_a_masters_port_that_a_connection_has_is_named():
    """The kernel gave it to an outgoing connection: nobody listens there, and nobody can."""
    with socket.create_server(("127.0.0.1", 0)) as other, socket.create_connection(other.getsockname()) as s:
        r = launch("--nnodes=2", f"--master=127.0.0.1:{s.getsockname()[1]}", "--join_timeout=3s", "t.sh")
        assert r.returncode == 1 and re.search(rf"Address already in use: process {os.getpid()} \(.*\) has a connection from there to "
                                               rf"127.0.0.1:{other.getsockname()[1]}", r.stderr), r.stderr


def test_variables_from_files_and_of_services():
    """A Secret's last newline is no part of a value; nor is what Kubernetes says of a Service named paddle-gloo a port."""
    show = script("env.sh", "#!/bin/sh\nenv\n")
    r = launch(show, env={"PADDLE_NNODES": "1\n", "PADDLE_NPROC_PER_NODE": " 2\r\n", "PADDLE_GLOO_PORT": "tcp://10.0.0.1:6767",
                          "MASTER_PORT": "tcp://10.0.0.2:1", "FLAGS_START_PORT": "udp://10.0.0.2:1", "PORT_RANGE": "30000:30999\n",
                          "PADDLE_GLOO_SERVICE_HOST": "10.0.0.1"})
    assert r.returncode == 0 and log("workerlog.1") and "replicas 2" in r.stderr, r.stderr
    assert 'PADDLE_GLOO_PORT is "tcp://10.0.0.1:6767", as Kubernetes says it of a Service' in r.stdout
    assert "tcp://" not in log("workerlog.0") and "PADDLE_GLOO_SERVICE_HOST=10.0.0.1" in log("workerlog.0")
    assert re.search("PADDLE_CURRENT_ENDPOINT=.*:30[0-9]{3}$", log("workerlog.0"), re.M)


TUNED = """echo "$PADDLE_AUTO_PARALLEL_STAGE: $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM, of $PADDLE_GLOBAL_SIZE in all, $PADDLE_AUTO_PARALLEL_CONFIG"
[ "$PADDLE_AUTO_PARALLEL_STAGE" != "$FAILS" ] || exit 3
"""


@pytest.mark.parametrize("mode, files", [("tuner_and_run", ["tuner.log", "workerlog.0", "workerlog.1"]), (None, ["tuner.log", "workerlog.0", "workerlog.1"]),
                                         ("tuner_only", ["tuner.log"]), ("run_only", ["workerlog.0", "workerlog.1"])])
def test_the_program_is_its_own_tuner(folder, mode, files):
    """Once before the workers, alone."""
    (folder / "auto.json").write_text(json.dumps({"tuner_run_mode": mode} if mode else {}))
    r = launch("--auto_parallel_config", "auto.json", "--nproc_per_node", "2", script("t.sh", TUNED))
    assert r.returncode == 0, r.stderr
    assert [f.name for f in sorted((folder / "log").iterdir()) if f.name.startswith(("tuner", "worker"))] == files
    for f in files:
        assert log(f) == ("tuner: 0 of 1, of 2 in all, auto.json\n" if f == "tuner.log" else f"run: {f[-1]} of 2, of 2 in all, auto.json\n")
    assert r.stdout.index("tuner: 0") < r.stdout.index("run: 0") if len(files) == 3 else True


def test_a_tuner_that_fails_ends_the_job(folder):
    (folder / "auto.json").write_text("{}")
    r = launch("--auto_parallel_config", "auto.json", "--nproc_per_node", "2", script("t.sh", TUNED), env={"FAILS": "tuner"})
    assert r.returncode == 3 and "tuner: exit code 3" in r.stderr and not (folder / "log/workerlog.0").exists(), r.stderr
    r = launch("--auto_parallel_config", "auto.json", script("t.sh", TUNED), env={"PADDLE_AUTO_PARALLEL_CONFIG": "none.json"})
    assert r.returncode == 1 and '--auto_parallel_config "none.json": cannot open' in r.stderr, r.stderr


@pytest.mark.parametrize("words,text", [
    (["--nnodes", "2", "--master", "nowhere", "t.sh"], "nowhere"),
    (["--devices", "3", "t.sh"], "Device not found 3"),
    (["--nproc-per-node", "2", "t.sh"], "unknown option --nproc-per-node: did you mean --nproc_per_node?"),
    (["--backend", "mpi", "t.sh"], '--backend is "mpi", expected one of auto, nccl, gloo'),
    (["--auto_tuner_json", "x", "t.sh"], "start such a job with Paddle's launcher"),
    (["--worker-num", "2", "t.sh"], "unknown option --worker-num"),
    (["--log_dir", "--nnodes", "2", "t.sh"], '--log_dir needs a value, but "--nnodes" follows'),
    (["--nnodes", "2", "--require_token", "t.sh"], "--require_token without a token: expected PADDLE_JOB_TOKEN"),
])
def test_errors_are_one_line(words, text):
    r = launch(*words, env={"CUDA_VISIBLE_DEVICES": "0,1"})
    assert r.returncode == 2 and text in r.stderr.splitlines()[-1], r.stderr


def test_a_waiting_node_logs_for_whom_and_how_long():
    p = start("--nnodes", "3", "--rank", "0", "--log_level", "WARNING", "t.sh")     # torchrun's
    line = next(x for x in p.stderr if "waiting for the other nodes since" in x)     # pytest's time limit is the bound
    assert "1 of 3 nodes are here" in line and re.search(r"giving up in 8\d\d s \(--join_timeout\)", line), line
    p.terminate()
    p.communicate(timeout=60)


def test_a_missing_python_names_the_script():
    pathlib.Path("t.py").write_text("")
    r = launch("t.py", env={"PATH": "/nonexistent"})
    assert r.returncode == 127, r.stderr
    assert '"t.py" needs Python: there is no python3 and no python beside this program or in PATH' in r.stderr, r.stderr
    r = launch("t.py", env={"PADDLERUN_PYTHON": "/no/python"})
    assert r.returncode == 127, r.stderr
    assert '"t.py" needs Python, PADDLERUN_PYTHON: cannot start "/no/python"' in r.stderr, r.stderr
