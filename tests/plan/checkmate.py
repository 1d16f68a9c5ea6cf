"""Optimal rematerialization as Checkmate states it (Jain et al., 2020, section 4), solved by CBC.

Nodes 1 … n run in one fixed order. Stage t ends when node t is computed for the first time; in a
stage any earlier node may be computed again.

    R[t,i]     node i is computed in stage t
    S[t,i]     the result of node i is in memory at the start of stage t
    FREE[t,i,k]  the result of node i is given up in stage t after node k
    U[t,k]     bytes in memory when node k has just been computed (or passed over) in stage t

    minimize   sum of cost[i] R[t,i]
    subject to R[t,t] = 1, nothing of i > t in stage t, S[1,i] = 0
               R[t,j] <= R[t,i] + S[t,i]           i an input of j
               S[t,i] <= R[t-1,i] + S[t-1,i]
               U[t,1] = sum of size[i] S[t,i] + size[1] R[t,1]
               U[t,k] = U[t,k-1] + size[k] R[t,k] - sum of size[i] FREE[t,i,k-1]
               FREE[t,i,k] = R[t,k] (1 - S[t+1,i]) product over users j > k of i (1 - R[t,j])
               U[t,k] <= budget

FREE is made linear as there: it is 1 exactly where none of its factors' complements is. The inputs
of a node and its result are in memory together while it runs; what nobody reads any more goes
before the next one. There is no memory but that of results.
"""

import dataclasses
import pathlib
import subprocess


@dataclasses.dataclass(frozen=True)
class Node:
    name: str
    size: int  # of its result, in units of 64 bytes
    cost: int
    inputs: tuple[str, ...]
    stage: str = "forward"


def with_gradients(forward: list[Node]) -> list[Node]:
    """A training step: after the forward nodes, in reverse, the gradient of each one's result.

    It is as large as the result. It reads, for each reader of the result, the gradient of that
    one's result and all that one read, and takes as long as those readers did, twice (as a layer's
    way back does). The gradient of the last result reads that result: the loss. Weights, their
    gradients and updates are left out: they are the same in every plan.
    """
    by_name = {node.name: node for node in forward}
    users = {
        node.name: [other for other in forward if node.name in other.inputs] for node in forward
    }
    steps = list(forward)
    for node in reversed(forward):
        reads = [] if users[node.name] else [node.name]
        for user in users[node.name]:
            reads += ["d_" + user.name, *user.inputs]
        cost = 2 * sum(user.cost for user in users[node.name]) or 1
        steps.append(
            Node(
                "d_" + node.name,
                by_name[node.name].size,
                cost,
                tuple(dict.fromkeys(reads)),
                "backward",
            )
        )
    return steps


def chain(sizes: list[int], costs: list[int]) -> list[Node]:
    nodes = [
        Node(f"f{i}", size, cost, (f"f{i - 1}",) if i else ())
        for i, (size, cost) in enumerate(zip(sizes, costs, strict=True))
    ]
    return with_gradients(nodes)


def u_shape(down: list[int], bottom: int, costs: list[int]) -> list[Node]:
    """A way down with results of these sizes, a bottom, and a way up that reads them again."""
    names = [f"e{i}" for i in range(len(down))]
    nodes = [
        Node(name, down[i], costs[i], (names[i - 1],) if i else ()) for i, name in enumerate(names)
    ]
    nodes.append(Node("bottom", bottom, costs[len(down)], (names[-1],)))
    for i in reversed(range(len(down))):
        nodes.append(Node(f"u{i}", down[i], costs[i], (nodes[-1].name, names[i])))
    return with_gradients(nodes)


def program_text(nodes: list[Node]) -> str:
    """The same graph for plimsoll_plan_tool; a unit of size is 16 floats."""
    lines = ["program train batch 1"]
    for node in nodes:
        inputs = ", ".join("%" + name for name in node.inputs)
        lines.append(
            f"node {node.name} task ({inputs}) -> (%{node.name} float32 (B, {16 * node.size})) "
            f"{{cost={node.cost}, units={16 * node.size}}} {node.stage}"
        )
    return "\n".join([*lines, f"output %{nodes[-1].name}", ""])


def peak_without_recomputation(nodes: list[Node]) -> int:
    last = {}
    for place, node in enumerate(nodes):
        for name in (node.name, *node.inputs):
            last[name] = place
    made = {node.name: place for place, node in enumerate(nodes)}
    return max(
        sum(node.size for node in nodes if made[node.name] <= place <= last[node.name])
        for place in range(len(nodes))
    )


def largest_node(nodes: list[Node]) -> int:
    """The results that one node holds: no budget below it can be met."""
    size = {node.name: node.size for node in nodes}
    return max(node.size + sum(size[name] for name in node.inputs) for node in nodes)


def write_lp(nodes: list[Node], budget: int, path: pathlib.Path) -> None:
    count = len(nodes)
    place = {node.name: i for i, node in enumerate(nodes)}
    inputs = [[place[name] for name in node.inputs] for node in nodes]
    users = [[j for j in range(count) if i in inputs[j]] for i in range(count)]
    size = [node.size for node in nodes]
    rules = []
    binaries = [f"R_{t}_{i}" for t in range(count) for i in range(t + 1)]
    binaries += [f"S_{t}_{i}" for t in range(1, count) for i in range(t)]

    def kept(t: int, i: int) -> list[str]:
        return [f"S_{t}_{i}"] if 0 <= i < t < count else []

    for t in range(count):
        rules.append(f"R_{t}_{t} = 1")
        for j in range(t + 1):
            for i in inputs[j]:
                have = " - ".join([f"R_{t}_{i}", *kept(t, i)])
                rules.append(f"R_{t}_{j} - {have} <= 0")
        for i in range(t):
            have = " - ".join([f"R_{t - 1}_{i}", *kept(t - 1, i)])
            rules.append(f"S_{t}_{i} - {have} <= 0")
        before = "".join(f" - {size[i]} {s}" for i in range(t) for s in kept(t, i))
        for k in range(t + 1):
            freed = []
            for i in [*inputs[k - 1], k - 1] if k else []:
                freed.append(f" + {size[i]} F_{t}_{i}_{k - 1}")
            last = f" - U_{t}_{k - 1}" if k else before
            rules.append(f"U_{t}_{k}{last}{''.join(freed)} - {size[k]} R_{t}_{k} = 0")
        for k in range(t):
            for i in [*inputs[k], k]:
                binaries.append(f"F_{t}_{i}_{k}")
                # Complements of the factors: 1 - R[t,k], S[t+1,i], R[t,j] of later users.
                later = [f"R_{t}_{j}" for j in users[i] if k < j <= t] + kept(t + 1, i)
                hazards = f"- R_{t}_{k}" + "".join(f" + {name}" for name in later)
                free = f"F_{t}_{i}_{k}"
                # 1 - FREE <= hazards, and hazards <= most (1 - FREE).
                most = 1 + len(later)
                rules.append(f"{free} {hazards} >= 0")
                rules.append(f"{most} {free} {hazards} <= {most - 1}")
    cost = " + ".join(f"{nodes[i].cost} R_{t}_{i}" for t in range(count) for i in range(t + 1))
    bounds = [f"0 <= U_{t}_{k} <= {budget}" for t in range(count) for k in range(t + 1)]
    text = ["Minimize", f" cost: {cost}", "Subject To"]
    text += [f" c{number}: {rule}" for number, rule in enumerate(rules)]
    text += ["Bounds", *(" " + bound for bound in bounds)]
    text += ["Binaries", *(" " + name for name in binaries), "End", ""]
    path.write_text("\n".join(text))


@dataclasses.dataclass(frozen=True)
class Optimum:
    status: str  # "optimal", "infeasible", "stopped"
    cost: float | None  # of the best schedule found
    bound: float | None  # no schedule costs less


def solve(nodes: list[Node], budget: int, folder: pathlib.Path, seconds: int) -> Optimum:
    path = folder / "checkmate.lp"
    write_lp(nodes, budget, path)
    answer = subprocess.run(
        ["cbc", str(path), "-seconds", str(seconds), "-threads", "1", "-solve", "-quit"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = {}
    for line in answer.splitlines():
        for label in ("Objective value:", "Lower bound:"):
            if line.startswith(label):
                found[label] = float(line[len(label) :])
    cost = found.get("Objective value:")
    if "Result - Optimal solution found" in answer:
        return Optimum("optimal", cost, cost)
    if "infeasible" in answer.lower() and "Stopped" not in answer:
        return Optimum("infeasible", None, None)
    return Optimum("stopped", cost, found.get("Lower bound:"))
