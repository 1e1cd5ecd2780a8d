"""Options by name: printed by python/interface from the comments of runtime/rt.h (tools/generate); edit those.

An option that is not given is read from the environment (the variable is in parentheses), or has the default that stands behind
it.  Times are in seconds, sizes in bytes."""
from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    import os
    from typing import Literal

    from ._rules import Admission, Eviction, Initializer, Schedule

    Mode = Literal["async", "sync", "geo"]
    Nonfinite = Literal["refuse", "skip", "allow"]
    Transport = Literal["lanes", "grpc"]

# Words for the numbers of C's enums, by the field's name.
ENUMS = {"mode": {"async": "RT_ASYNC", "sync": "RT_SYNC", "geo": "RT_GEO"},
         "nonfinite": {"refuse": "RT_NONFINITE_REFUSE", "skip": "RT_NONFINITE_SKIP", "allow": "RT_NONFINITE_ALLOW"},
         "transport": {"lanes": "RT_PS_LANES", "grpc": "RT_PS_GRPC"}}


class ServerOptions(TypedDict, total=False):
    """Options of a server.

    lease: a trainer silent for longer is lost (PADDLE_PS_LEASE); 30 s
    start_timeout: first trainer to last one (PADDLE_PS_START_TIMEOUT); 600 s
    return_: how long to wait for a lost trainer to return (PADDLE_PS_RETURN); lease. Below 0: not at all
    shards: worker threads (PADDLE_PS_SHARDS); half the cores of the machine or the container (cgroup), 1 .. 16
    memory_max: bytes of all tables together; three quarters of the machine's or the container's memory. A push that
        would exceed it fails with NoResourceError (push says which part of it is kept). Requests and answers in
        flight over gRPC take up to an eighth of it, 64 MiB at most, besides
    nonfinite: How a server treats NaN and infinite values in gradients and in what init brings. What load brings
        had been in a server: "skip" leaves it out, "refuse" takes it. In geo mode a trainer's own copy follows the
        same rule. Not given: the value of PADDLE_PS_NONFINITE; refuse.
    checkpoint_dir: the server writes checkpoints only in and below this directory (PADDLE_PS_CHECKPOINT_DIR); "":
        wherever a trainer asks
    cold_dir: sparse rows that do not fit in memory_max are kept on disk, in this server's own directory below this
        one (PADDLE_PS_COLD_DIR); "": all rows are in memory
    encrypt: Whether trainers and servers, or the ranks of a group, encrypt their connections: TLS 1.3 with keys
        derived from the job's token. All processes of a job must agree; a peer with another setting is refused. Not
        given: the value of PADDLE_JOB_ENCRYPT; no.
    """
    lease: float | None
    start_timeout: float | None
    return_: float | None
    shards: int | None
    memory_max: int | None
    nonfinite: Nonfinite | None
    checkpoint_dir: str | os.PathLike[str] | None
    cold_dir: str | os.PathLike[str] | None
    encrypt: bool | None


class ClientOptions(TypedDict, total=False):
    """Options of a trainer.

    backup: Sync: the number of slowest trainers that a step does not wait for. A step is applied when all others
        that are still training have ended it. Gradients that arrive later are dropped and counted (stat). This many
        trainers may also be lost.
    start_timeout: waiting for servers (PADDLE_PS_START_TIMEOUT); 600 s
    call_timeout: pull, push, ... (PADDLE_PS_CALL_TIMEOUT, FLAGS_rpc_deadline); 180 s. Restarts whenever a part of
        the call, at most 4 MiB, is done
    barrier_timeout: barriers, and steps in sync mode; 600 s
    lease: a server silent for longer is lost (PADDLE_PS_LEASE); 30 s
    merge_max: Async push: up to this many waiting pushes to a table are merged into one (equal ids are summed); 1:
        each push is sent by itself.
    queue_max: Async push: how many pushes to a table may wait, as copies, before the call blocks; 0: none wait;
        when merging, 16, but at least merge_max.
    send_wait: how long a push waits for others to be merged with; 0: not at all
    send_threads: threads that merge and send, at most one per table; 0: 5
    merge_mean: merged gradients, dense ones too, are averaged, not summed
    recv_after: Async exchange: new values come only with every n-th gradient, n = this; 0: 1.
    staleness: Async: how many steps this trainer may be ahead of the slowest one; beyond that step waits, and logs
        that it does; 0: no limit.
    k_steps: Geo: steps between two exchanges of the copies; 0: 100.
    return_: how long to wait for a lost server to return (PADDLE_PS_RETURN); lease. Below 0: not at all
    dense_merge_max: Async exchange: while an exchange is in flight, the gradients of at most this many steps wait,
        summed; 0: 4. 1: every step is sent by itself.
    transport: Which connections carry rows and gradients; membership and barriers always use gRPC. Not given: the
        value of PADDLE_PS_TRANSPORT; lanes.
    checkpoint_dir: Checkpoints while training (checkpoint): worker 0's step begins one whenever this many of its
        steps, or this much time, have passed since the last one. It is written in the background.
        (PADDLE_PS_CHECKPOINT_DIR); "": none
    checkpoint_steps: steps from one to the next (PADDLE_PS_CHECKPOINT_STEPS)
    checkpoint: time from one to the next (PADDLE_PS_CHECKPOINT_INTERVAL); 600 s if neither is set
    checkpoint_deltas: deltas between two full ones (PADDLE_PS_CHECKPOINT_DELTAS); 9
    checkpoint_keep: full ones to keep (PADDLE_PS_CHECKPOINT_KEEP); 2
    encrypt: Whether trainers and servers, or the ranks of a group, encrypt their connections: TLS 1.3 with keys
        derived from the job's token. All processes of a job must agree; a peer with another setting is refused. Not
        given: the value of PADDLE_JOB_ENCRYPT; no.
    """
    backup: int | None
    start_timeout: float | None
    call_timeout: float | None
    barrier_timeout: float | None
    lease: float | None
    merge_max: int | None
    queue_max: int | None
    send_wait: float | None
    send_threads: int | None
    merge_mean: bool | None
    recv_after: int | None
    staleness: int | None
    k_steps: int | None
    return_: float | None
    dense_merge_max: int | None
    transport: Transport | None
    checkpoint_dir: str | os.PathLike[str] | None
    checkpoint_steps: int | None
    checkpoint: float | None
    checkpoint_deltas: int | None
    checkpoint_keep: int | None
    encrypt: bool | None


class TableOptions(TypedDict, total=False):
    """Options of any table.

    schedule: Learning rate schedule: "cosine:steps=10000,warmup=500", ... (docs/rules.md); "": constant. It turns
        the optimizer's lr into the rate of a step. Steps counted: in sync mode, completed steps; in async mode, all
        trainers' step calls divided by the number of trainers; in geo mode, this trainer's steps.
    wire: The type in which values and gradients travel, with the same words, rounded to nearest. Servers still
        store and update in f32 (or in storage), and checkpoints hold that. Dense in bf16: half the bytes per step,
        and trainers compute with values of 8 bits. A value beyond the type's range arrives as the largest, and so
        does a change in geo mode, the rest of which goes with later ones. In f16 a gradient above 65504 becomes
        infinite, and one below 6e-8 becomes 0. "int8", for dense tables in sync mode: a byte per value, and two
        bytes per 64 values for their scale. Gradients travel so, and what each step changes of the values. What
        rounding leaves of a gradient is added to this trainer's next one (error feedback), and of a change to the
        next change. NaN or Inf in a gradient counts for its 64 values. All that pull_dense reads, and values
        without data lanes, are f32. A trainer keeps two more copies of the table, a server one and a quarter.
    """
    schedule: str | Schedule | None
    wire: str | None


class SparseOptions(TableOptions, total=False):
    """Options of a sparse table.

    storage: the type in which values are stored: "f32" (not given), "f16" or "bf16". Optimizer state is f32, and
        updates are computed in f32. Their result is rounded up or down at random; the nearer neighbour is more
        likely. Rounding to nearest would lose every update smaller than half a unit in the last place (1/512 of a
        value in bf16). First values and what load brings are rounded to nearest, so a saved value is restored
        unchanged. A value beyond the type's range (f16: 65504) becomes the largest, not infinite.
    admit: when an id gets a row. Not given: with its first push. "count:n=10", "probability:p=0.1",
        "show_click:threshold=10". Until then its pushes are only counted, in fixed memory (8 MiB per shard), and it
        reads as zeros, in a saved model, too. These counts are in no checkpoint: a server that is started again
        counts from 0.
    evict: which rows are evicted. Not given: none. "ttl:seconds=86400", "ttl:steps=10000", "lfu:capacity=1000000"
        (rows of the whole table; counts decay), "ctr:delete_threshold=0.8,..." (by shrink). An id whose row was
        evicted is like one that never had a row.
    """
    storage: str | None
    admit: str | Admission | None
    evict: str | Eviction | None
