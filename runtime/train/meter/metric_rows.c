/* All metrics of servers and trainers. */
#include "runtime/train/meter/metric_rows.h"

static const char *const ops[] = {"pull", "push", "exchange", "step", "other", NULL};
static const char *const directions[] = {"received", "sent", NULL};
static const char *const results[] = {"done", "failed", NULL};
static const char *const states[] = {"absent", "alive", "away", "lost", "finished", NULL};
static const char *const missed[] = {"away", "lost", NULL};
static const char *const calls[] = {
    "pull", "push", "exchange", "step", "save", "load", "checkpoint", "other", NULL};
/* As co_code_name has them. */
static const char *const kinds[] = {"invalid", "permission", "conflict", "timeout", "peer lost",
    "no resource", "unsupported", "exists", "other", NULL};

const char *meter_tables[METER_TABLES + 1];
const char *meter_names[METER_NAMES + 1];

static const double latency[] = {
    5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, .01, .025, .1, .5, 1, 10};

#define BOUNDS(array) .bounds = (array), .n_bounds = sizeof(array) / sizeof((array)[0])
#define TABLES .label = {{"table", meter_tables}}

struct co_metric meter_rows[METER_M_COUNT] = {
    [METER_M_ROWS] = {.name = "paddlert_server_rows",
        .help = "Rows of a sparse table on this server",
        .type = CO_GAUGE,
        TABLES},
    [METER_M_TABLE_BYTES] = {.name = "paddlert_server_table_bytes",
        .help = "Memory of a table's rows on this server",
        .type = CO_GAUGE,
        TABLES},
    [METER_M_MEMORY] = {.name = "paddlert_server_memory_bytes",
        .help = "Memory of all tables, and of what waits to be written to a checkpoint",
        .type = CO_GAUGE},
    [METER_M_MEMORY_MAX] = {.name = "paddlert_server_memory_limit_bytes",
        .help = "What that may be at most: pushes that would exceed it fail",
        .type = CO_GAUGE},
    [METER_M_REQUEST_SECONDS] = {.name = "paddlert_server_request_seconds",
        .help = "Time that a shard takes for a request, waiting not included",
        .type = CO_HISTOGRAM,
        .label = {{"op", ops}},
        BOUNDS(latency)},
    [METER_M_IDS] = {.name = "paddlert_server_values_total",
        .help = "Ids (sparse) and values (dense) of requests",
        .label = {{"op", ops}}},
    [METER_M_BYTES] = {.name = "paddlert_server_bytes_total",
        .help = "Bytes of requests and answers",
        .label = {{"direction", directions}}},
    [METER_M_NONFINITE] = {.name = "paddlert_server_nonfinite_total",
        .help = "Rows and values that were NaN or infinite",
        TABLES},
    [METER_M_LATE] = {.name = "paddlert_server_late_total",
        .help = "Rows and values that came after their step, and were left out",
        TABLES},
    [METER_M_QUEUE] = {.name = "paddlert_server_queue",
        .help = "Requests that waited for shards when they looked last",
        .type = CO_GAUGE},
    [METER_M_TRAINERS] = {.name = "paddlert_server_trainers",
        .help = "Trainers of the job, as this server sees them",
        .type = CO_GAUGE,
        .label = {{"state", states}}},
    [METER_M_STALENESS] = {.name = "paddlert_server_staleness_steps",
        .help = "Steps between the fastest and the slowest trainer, on server 0, where staleness "
                "is bounded",
        .type = CO_GAUGE},
    [METER_M_STEP] = {.name = "paddlert_server_step",
        .help = "Steps completed, in sync mode",
        .type = CO_GAUGE},
    [METER_M_MISSED] = {.name = "paddlert_server_missed_total",
        .help = "Trainers whose connection broke (away) and that did not come back in time (lost)",
        .label = {{"state", missed}}},
    [METER_M_REFUSED] = {.name = "paddlert_server_refused_total",
        .help = "Peers that were refused, by kind",
        .label = {{"kind", kinds}}},
    [METER_M_PARTS] = {.name = "paddlert_server_checkpoints_total",
        .help = "This server's parts of checkpoints",
        .label = {{"result", results}}},
    [METER_M_PART_NUMBER] = {.name = "paddlert_server_checkpoint_number",
        .help = "Number of the checkpoint whose part was written last",
        .type = CO_GAUGE},
    [METER_M_PART_TIME] = {.name = "paddlert_server_checkpoint_timestamp_seconds",
        .help = "When that was",
        .type = CO_GAUGE},
    [METER_M_PART_BYTES] = {.name = "paddlert_server_checkpoint_bytes",
        .help = "Bytes of that part",
        .type = CO_GAUGE},
    [METER_M_PART_SECONDS] = {.name = "paddlert_server_checkpoint_seconds",
        .help = "Time from its order until it was on the disk",
        .type = CO_GAUGE},
    [METER_M_CALL_SECONDS] = {.name = "paddlert_trainer_call_seconds",
        .help = "Time that the trainer waited for servers",
        .type = CO_HISTOGRAM,
        .label = {{"call", calls}},
        BOUNDS(latency)},
    [METER_M_STEPS] = {.name = "paddlert_trainer_steps_total", .help = "Steps behind this trainer"},
    [METER_M_TRAINER_BYTES] = {.name = "paddlert_trainer_bytes_total",
        .help = "Bytes of answers and requests",
        .label = {{"direction", directions}}},
    [METER_M_RECONNECTS] = {.name = "paddlert_trainer_lost_connections_total",
        .help = "Connections to servers that broke, and were waited for"},
    [METER_M_CHECKPOINTS] = {.name = "paddlert_trainer_checkpoints_total",
        .help = "Checkpoints that this trainer (worker 0) had written",
        .label = {{"result", results}}},
    [METER_M_CHECKPOINT_NUMBER] = {.name = "paddlert_trainer_checkpoint_number",
        .help = "Number of the newest of them",
        .type = CO_GAUGE},
    [METER_M_CHECKPOINT_TIME] = {.name = "paddlert_trainer_checkpoint_timestamp_seconds",
        .help = "When it was there",
        .type = CO_GAUGE},
    [METER_M_CHECKPOINT_BYTES] = {.name = "paddlert_trainer_checkpoint_bytes",
        .help = "Bytes of all its parts",
        .type = CO_GAUGE},
    [METER_M_CHECKPOINT_SECONDS] = {.name = "paddlert_trainer_checkpoint_seconds",
        .help = "Time that it took",
        .type = CO_GAUGE},
    [METER_M_REPORTED] = {.name = "paddlert_reported",
        .help =
            "What the program reported last with rt_report: loss, auc, examples_per_second, ...",
        .type = CO_GAUGE,
        .label = {{"name", meter_names}}},
    [METER_M_REPORTED_STEP] = {.name = "paddlert_reported_step",
        .help = "The step that it reported with it",
        .type = CO_GAUGE},
};
