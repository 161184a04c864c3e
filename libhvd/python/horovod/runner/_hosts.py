# SPDX-License-Identifier: Apache-2.0
"""Which ranks run on which nodes of an allocation. Pure: it is told what the allocation has."""

import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from horovod.runner._flags import Refusal

Hosts = List[Tuple[str, int]]  # host and its ranks, in the order of ranks; no host twice


class Allocation(NamedTuple):
    """What a Slurm job has.

    Attributes:
        nodes: their names, in Slurm's order.
        tasks: of each node, the tasks that were asked for; empty if that is not known.
        cpus: of each node; empty if that is not known.
        count: tasks that were asked for in all; None if they were not.
        here: the node on which this runs, or None.
    """

    nodes: Tuple[str, ...]
    tasks: Tuple[int, ...] = ()
    cpus: Tuple[int, ...] = ()
    count: Optional[int] = None
    here: Optional[str] = None


def allocation(environment: Mapping[str, str], nodes: Sequence[str], own_name: str) -> Allocation:
    """What the environment says of the job whose nodes these are."""
    per_node = environment.get("SLURM_NTASKS_PER_NODE", "")
    count = environment.get("SLURM_NTASKS", "")
    count = count if count.isdigit() else str(int(per_node) * len(nodes)) if per_node.isdigit() else ""
    here = environment.get("SLURMD_NODENAME", own_name)
    here = _find(here, nodes) or (nodes[0] if len(nodes) == 1 else None)

    def each(variable: str) -> Tuple[int, ...]:
        numbers = numbers_of(environment.get(variable, ""))
        return numbers if len(numbers) == len(nodes) else ()

    return Allocation(tuple(nodes), each("SLURM_TASKS_PER_NODE"), each("SLURM_JOB_CPUS_PER_NODE"),
                      int(count) if count else None, here)


def numbers_of(text: str) -> Tuple[int, ...]:
    """Slurm's "2(x3),1": (2, 2, 2, 1); () if it is none."""
    numbers: List[int] = []
    for item in text.split(","):
        match = re.fullmatch(r"([0-9]+)(?:\(x([0-9]+)\))?", item)
        if not match:
            return ()
        numbers += [int(match[1])] * int(match[2] or 1)
    return tuple(numbers)


def parse_hosts(name: str, text: str) -> Hosts:
    """The value of -H: "node0:2,node1:2"."""
    found: Hosts = []
    for item in filter(None, (item.strip() for item in text.split(","))):
        match = re.fullmatch(r"([\w.-]+):([0-9]+)", item, re.ASCII)
        if not match or int(match[2]) < 1:
            raise Refusal(f'{name}: "{item}" is no host with its number of slots, as in node0:2,node1:2')
        found.append((match[1], int(match[2])))
    if not found:
        raise Refusal(f"{name} names no host")
    return found


def parse_hostfile(name: str, text: str) -> Hosts:
    """What is in a host file: "node0 slots=2" lines."""
    found: Hosts = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        match = re.fullmatch(r"([\w.-]+)\s+slots\s*=\s*([0-9]+)", line, re.ASCII)
        if line and (not match or int(match[2]) < 1):
            raise Refusal(f'{name}:{number}: "{line}" is no host with its number of slots, as in node0 slots=2')
        if match:
            found.append((match[1], int(match[2])))
    if not found:
        raise Refusal(f"{name} names no host")
    return found


def fill(hosts: Hosts, count: Optional[int]) -> Hosts:
    """So many ranks, the first host first; all slots if count is None."""
    slots = sum(number for _, number in hosts)
    if count is not None and count > slots:
        raise Refusal(f"-np {count} is more than the {slots} slots of the hosts that are named")
    left, filled = slots if count is None else count, []
    for host, number in hosts:
        if left > 0:
            filled.append((host, min(number, left)))
        left -= number
    return filled


def place(hosts: Optional[Hosts], count: Optional[int], job: Allocation, overcommit: bool = False) -> Optional[Hosts]:
    """The ranks of each node.

    Args:
        hosts: what the user has named, or None.
        count: number of ranks, or None: all slots of hosts, or all tasks of the job.
        overcommit: more ranks than CPUs are wanted.

    Returns:
        None: all tasks of the job, as Slurm places them.

    Raises:
        Refusal: the job does not have that.
    """
    if hosts is not None:
        placed = fill(_in_job(hosts, job), count)
    else:
        count = job.count if count is None else count
        if count is None:
            raise Refusal("-np is missing, and this allocation was not made for a number of tasks; say -np N")
        if count == job.count and sum(job.tasks) == count:
            return None
        if count <= sum(job.tasks):
            placed = fill(list(zip(job.nodes, job.tasks)), count)
        else:
            placed = _spread(count, job, overcommit)
    if job.cpus and not overcommit:
        for node, number in placed:
            cpus = job.cpus[job.nodes.index(node)]
            if number > cpus:
                raise Refusal(f"{number} ranks on {node} are more than the {_cpus(cpus)} that this job has there. "
                              f"{_MORE}")
    return placed


_MORE = "Ask Slurm for more with --ntasks-per-node, or set SLURM_OVERCOMMIT=1 to share them"


def _cpus(number: int) -> str:
    return "1 CPU" if number == 1 else f"{number} CPUs"


def _spread(count: int, job: Allocation, overcommit: bool) -> Hosts:
    """More ranks than tasks were asked for: evenly, as far as CPUs go."""
    if job.cpus and count > sum(job.cpus) and not overcommit:
        each = ", ".join(f"{cpus} on {node}" for node, cpus in list(zip(job.nodes, job.cpus))[:_TOLD])
        more = ", …" if len(job.nodes) > _TOLD else ""
        raise Refusal(f"-np {count} is more than the {_cpus(sum(job.cpus))} of this job ({each}{more}). {_MORE}")
    limit = job.cpus if job.cpus and not overcommit else (count,) * len(job.nodes)
    ranks = [0] * len(job.nodes)
    while count > 0:
        # One round gives every node that has room the same share, the first ones what is left over.
        room = [i for i, number in enumerate(ranks) if number < limit[i]]
        for at, i in enumerate(room):
            share = min(limit[i] - ranks[i], count // (len(room) - at) + (count % (len(room) - at) > 0))
            ranks[i] += share
            count -= share
    return [(node, number) for node, number in zip(job.nodes, ranks) if number > 0]


_TOLD = 8  # names that a message has at most


def _in_job(hosts: Hosts, job: Allocation) -> Hosts:
    slots: Dict[str, int] = {}
    for host, number in hosts:
        node = job.here if host in ("localhost", "127.0.0.1", "::1") else _find(host, job.nodes)
        if node is None:
            nodes = ", ".join(job.nodes[:_TOLD]) + (", …" if len(job.nodes) > _TOLD else "")
            raise Refusal(f'host "{host}" is not in this allocation, which has {nodes}')
        slots[node] = slots.get(node, 0) + number
    return list(slots.items())


def _find(host: str, nodes: Sequence[str]) -> Optional[str]:
    """A node by its name, or by a longer or shorter form of it that only one has."""
    if host in nodes:
        return host
    alike = [node for node in nodes if node.startswith(f"{host}.") or host.startswith(f"{node}.")]
    return alike[0] if len(alike) == 1 else None


def srun_arguments(placed: Optional[Hosts], count: Optional[int], job: Allocation) -> List[str]:
    """How srun is told: rank after rank, host after host, in this order."""
    if placed is None:
        return ["-n", str(count if count is not None else job.count)]
    nodes = [node for node, _ in placed]
    counts = [number for _, number in placed]
    arguments = ["-N", str(len(nodes)), "-n", str(sum(counts))]
    if len(set(counts)) == 1 and nodes == [node for node in job.nodes if node in nodes]:
        arguments += [f"--ntasks-per-node={counts[0]}", "--distribution=block"]
        return arguments if len(nodes) == len(job.nodes) else arguments + ["-w", ",".join(nodes)]
    # srun takes the list as it is written, one name for each rank.
    names = ",".join(",".join([node] * number) for node, number in placed)
    return arguments + ["--distribution=arbitrary", "-w", names]


def cpus_per_task(placed: Optional[Hosts], job: Allocation, environment: Mapping[str, str]) -> List[str]:
    """What srun has to be told where the CPUs of a task, as the job asked for them, are too many for the ranks."""
    asked = environment.get("SRUN_CPUS_PER_TASK", environment.get("SLURM_CPUS_PER_TASK", ""))
    if placed is None or not job.cpus or not asked.isdigit():
        return []
    fits = min(job.cpus[job.nodes.index(node)] // number for node, number in placed)
    return ["-c", str(max(1, fits))] if int(asked) > fits else []
