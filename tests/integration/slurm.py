"""A real Slurm on this machine: munged, slurmctld, and a slurmd for each of two nodes, whose names are loopback addresses."""
import contextlib
import os
import pathlib
import pwd
import socket
import subprocess

from rig import free_port, wait_for

NODES = "127.0.0.[2-3]"
CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={dir}/munge.sock
CredType=cred/munge
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool-%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd-%n.pid
# No control groups, and as many processors as jobs ask for.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""


class Slurm:
    def __init__(self, directory):
        self.dir = pathlib.Path(directory)
        self.env = {**os.environ, "SLURM_CONF": str(self.dir / "slurm.conf"), "PATH": os.environ["PATH"] + ":/usr/sbin"}
        self.user = pwd.getpwuid(os.getuid()).pw_name
        self.processes, self.ports = [], [free_port() for _ in range(3)]

    def start(self, name, *words):
        with (self.dir / f"{name}.log").open("wb") as out:
            self.processes.append(subprocess.Popen([str(w) for w in words], env=self.env, stdin=subprocess.DEVNULL, stdout=out,
                                                   stderr=subprocess.STDOUT))

    def up(self):
        d, host = self.dir, socket.gethostname().split(".")[0]
        (d / "state").mkdir()
        key = d / "munge.key"
        key.write_bytes(os.urandom(64))
        key.chmod(0o400)
        nodes = "\n".join(f"NodeName=127.0.0.{i + 2} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=8 State=UNKNOWN"
                          for i, port in enumerate(self.ports[1:]))
        (d / "slurm.conf").write_text(CONF.format(host=host, ctld_port=self.ports[0], user=self.user, dir=d, nodes=nodes))
        self.start("munged", "munged", "--foreground", "--force", "--socket", d / "munge.sock", "--key-file", key, "--pid-file",
                   d / "munged.pid", "--log-file", d / "munged.own.log", "--seed-file", d / "munge.seed")
        wait_for((d / "munge.sock").exists, 60, self.story)
        self.start("slurmctld", "slurmctld", "-D")
        for i in (2, 3):
            self.start(f"slurmd-{i}", "slurmd", "-D", "-N", f"127.0.0.{i}")
        wait_for(lambda: self.run(["sinfo", "-h", "-o", "%T %D"])[1].split() == ["idle", "2"], 120, self.story)

    def run(self, words, seconds=150, **kw):
        """(exit code, output). A job that lasts too long is taken away, or the next one would wait for it."""
        try:
            p = subprocess.run([str(w) for w in words], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=seconds, **kw)
        except subprocess.TimeoutExpired:
            subprocess.run(["scancel", f"--user={self.user}"], env=self.env, timeout=60)
            raise AssertionError(f"{words[0]} took longer than {seconds} s\n{self.story()}") from None
        return p.returncode, p.stdout + p.stderr

    def story(self):
        return "\n".join(f"---- {f.name}\n" + "\n".join(f.read_text(errors="replace").splitlines()[-15:])
                         for f in sorted(self.dir.glob("*.log")))

    def down(self):
        for p in reversed(self.processes):
            p.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                p.wait(60)
            p.kill()
            p.wait()
