"""A Slurm cluster on this machine: munged, slurmctld and slurmd as the user who asks, in a folder that is theirs, with
ports, a key and a slurm.conf of their own. It touches no other cluster, needs no right that the user has not, and takes
its processes with it when it ends. Nothing of it is a way to run a real one: its nodes are this machine under several
names, its GPUs are imagined and nothing keeps jobs apart."""

import getpass
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import time

from program import call

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel", "sinfo")

CONFIG = """ClusterName=engram
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={control}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdLogFile={folder}/slurmd.%n.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
AuthType=auth/munge
# cred_expire: how long a job that was put back waits before it may start again, too.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
OverTimeLimit=0
KillWait=20
SlurmdTimeout=10
SlurmctldTimeout=10
GresTypes=gpu
{nodes}
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 MaxTime=INFINITE State=UP
PartitionName=high Nodes=ALL PriorityTier=10 MaxTime=INFINITE State=UP PreemptMode=OFF
"""


def missing():
    """The programs of Slurm and munge that are not installed here."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/sbin"])
    return [program for program in PROGRAMS if shutil.which(program, path=path) is None]


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Cluster:
    """`nodes`: name -> number of processors. A context manager; `folder` must exist and lie outside of anything that
    others may write to."""

    def __init__(self, folder, nodes):
        self.folder = pathlib.Path(folder)
        self.nodes = nodes
        self.daemons = {}
        self.environment = {**{name: value for name, value in os.environ.items() if not name.startswith("SLURM_")},
                            "PATH": os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin:/sbin",
                            "SLURM_CONF": str(self.folder / "slurm.conf")}

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def _start(self):
        self.folder.chmod(0o711)  # munged wants its socket to be reachable
        host = socket.gethostname().split(".")[0]
        control, *ports = free_ports(1 + len(self.nodes))
        lines = [f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={processors} State=UNKNOWN "
                 "Gres=gpu:1" for (name, processors), port in zip(self.nodes.items(), ports)]
        (self.folder / "slurm.conf").write_text(CONFIG.format(
            host=host, user=getpass.getuser(), control=control, folder=self.folder, nodes="\n".join(lines)))
        # A GPU has to be a device file.
        (self.folder / "gres.conf").write_text("".join(f"NodeName={name} Name=gpu File=/dev/null\n"
                                                       for name in self.nodes))
        (self.folder / "state").mkdir()
        for name in self.nodes:
            (self.folder / f"spool.{name}").mkdir()
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(128))
        self._daemon("munged", "--foreground", f"--key-file={key}", f"--socket={self.folder}/munge.socket",
                     f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
                     f"--seed-file={self.folder}/munged.seed")
        self.wait_for(lambda: (self.folder / "munge.socket").exists(), "munged's socket")
        self._daemon("slurmctld", "-D")
        for name in self.nodes:
            self.start_node(name)
        self.wait_for(lambda: self.node_states() == {name: "idle" for name in self.nodes}, "idle nodes", 40)

    def start_node(self, name):
        self._daemon("slurmd", "-D", "-N", name, node=name)

    def _daemon(self, program, *arguments, node=None):
        name = node or program
        environment = {**self.environment, **({"SLURMD_NODENAME": node} if node else {})}  # as its jobs have
        with open(self.folder / f"{name}.output", "ab") as output:
            self.daemons[name] = subprocess.Popen(
                [program, *arguments], env=environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True)

    def wait_for(self, condition, what, seconds=30):
        end = time.monotonic() + seconds
        while not condition():
            for name, process in self.daemons.items():
                assert process.poll() is None, f"{name} ended with {process.returncode}:\n{self.log(name)}"
            assert time.monotonic() < end, f"{what} did not come in {seconds} s\n{self.log('slurmctld')}"
            time.sleep(0.1)

    def log(self, name):
        files = sorted(self.folder.glob(f"*{name}*.output"))
        return "".join(file.read_text(errors="replace")[-3000:] for file in files)

    def call(self, *arguments, environment={}, **options):
        return call(*arguments, saying=None, env={**self.environment, **environment}, **options)

    def node_states(self):
        lines = self.call("sinfo", "-h", "-N", "-p", "low", "-o", "%N %t", status=None).stdout.split("\n")
        return dict(line.split() for line in lines if line)

    def processes(self, node=None):
        """Numbers of the live processes of this cluster's jobs and their keepers, on one node or all."""
        marks = [f"SLURM_CONF={self.folder}/slurm.conf".encode()]
        if node:
            marks.append(f"SLURMD_NODENAME={node}".encode())
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                variables = (process / "environ").read_bytes().split(b"\0")
                alive = (process / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
            except OSError:
                continue
            if alive and all(mark in variables for mark in marks):
                found.append(int(process.name))
        return found

    def lose_node(self, name):
        """As if the machine had lost its power: nothing of it says a word."""
        daemon = self.daemons.pop(name)
        self._kill(name)
        daemon.wait()

    def stop(self):
        for process in reversed(self.daemons.values()):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._kill()  # jobs of a test that has failed

    def _kill(self, node=None):
        while found := self.processes(node):
            for process in found:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)
