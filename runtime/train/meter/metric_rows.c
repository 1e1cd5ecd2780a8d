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
    [METER_M_ROWS] = {"paddlert_server_rows", CO_GAUGE, TABLES,
        .help = "Rows of a sparse table on this server"},
    [METER_M_TABLE_BYTES] = {"paddlert_server_table_bytes", CO_GAUGE, TABLES,
        .help = "Memory of a table's rows on this server"},
    [METER_M_MEMORY] = {"paddlert_server_memory_bytes", CO_GAUGE,
        .help = "Memory of all tables, and of what waits to be written to a checkpoint"},
    [METER_M_MEMORY_MAX] = {"paddlert_server_memory_limit_bytes", CO_GAUGE,
        .help = "What that may be at most: pushes that would exceed it fail"},
    [METER_M_REQUEST_SECONDS] = {"paddlert_server_request_seconds", CO_HISTOGRAM,
        .label = {{"op", ops}}, BOUNDS(latency),
        .help = "Time that a shard takes for a request, waiting not included"},
    [METER_M_IDS] = {"paddlert_server_values_total", CO_COUNTER, .label = {{"op", ops}},
        .help = "Ids (sparse) and values (dense) of requests"},
    [METER_M_BYTES] = {"paddlert_server_bytes_total", CO_COUNTER,
        .label = {{"direction", directions}}, .help = "Bytes of requests and answers"},
    [METER_M_NONFINITE] = {"paddlert_server_nonfinite_total", CO_COUNTER, TABLES,
        .help = "Rows and values that were NaN or infinite, or that an update made so"},
    [METER_M_LATE] = {"paddlert_server_late_total", CO_COUNTER, TABLES,
        .help = "Rows and values that came after their step, and were left out"},
    [METER_M_QUEUE] = {"paddlert_server_queue", CO_GAUGE,
        .help = "Requests that waited for shards when they looked last"},
    [METER_M_TRAINERS] = {"paddlert_server_trainers", CO_GAUGE, .label = {{"state", states}},
        .help = "Trainers of the job, as this server sees them"},
    [METER_M_STALENESS] = {"paddlert_server_staleness_steps", CO_GAUGE,
        .help = "Steps between the fastest and the slowest trainer, on server 0, where staleness "
                "is bounded"},
    [METER_M_STEP] = {"paddlert_server_step", CO_GAUGE, .help = "Steps completed, in sync mode"},
    [METER_M_MISSED] = {"paddlert_server_missed_total", CO_COUNTER, .label = {{"state", missed}},
        .help = "Trainers whose connection broke (away) and that did not come back in time (lost)"},
    [METER_M_REFUSED] = {"paddlert_server_refused_total", CO_COUNTER, .label = {{"kind", kinds}},
        .help = "Peers that were refused, by kind"},
    [METER_M_PARTS] = {"paddlert_server_checkpoints_total", CO_COUNTER,
        .label = {{"result", results}}, .help = "This server's parts of checkpoints"},
    [METER_M_PART_NUMBER] = {"paddlert_server_checkpoint_number", CO_GAUGE,
        .help = "Number of the checkpoint whose part was written last"},
    [METER_M_PART_TIME] = {"paddlert_server_checkpoint_timestamp_seconds", CO_GAUGE,
        .help = "When that was"},
    [METER_M_PART_BYTES] = {"paddlert_server_checkpoint_bytes", CO_GAUGE,
        .help = "Bytes of that part"},
    [METER_M_PART_SECONDS] = {"paddlert_server_checkpoint_seconds", CO_GAUGE,
        .help = "Time from its order until it was on the disk"},
    [METER_M_CALL_SECONDS] = {"paddlert_trainer_call_seconds", CO_HISTOGRAM,
        .label = {{"call", calls}}, BOUNDS(latency),
        .help = "Time that the trainer waited for servers"},
    [METER_M_STEPS] = {"paddlert_trainer_steps_total", CO_COUNTER,
        .help = "Steps behind this trainer"},
    [METER_M_TRAINER_BYTES] = {"paddlert_trainer_bytes_total", CO_COUNTER,
        .label = {{"direction", directions}}, .help = "Bytes of answers and requests"},
    [METER_M_RECONNECTS] = {"paddlert_trainer_lost_connections_total", CO_COUNTER,
        .help = "Connections to servers that broke, and were waited for"},
    [METER_M_CHECKPOINTS] = {"paddlert_trainer_checkpoints_total", CO_COUNTER,
        .label = {{"result", results}},
        .help = "Checkpoints that this trainer (worker 0) had written"},
    [METER_M_CHECKPOINT_NUMBER] = {"paddlert_trainer_checkpoint_number", CO_GAUGE,
        .help = "Number of the newest of them"},
    [METER_M_CHECKPOINT_TIME] = {"paddlert_trainer_checkpoint_timestamp_seconds", CO_GAUGE,
        .help = "When it was there"},
    [METER_M_CHECKPOINT_BYTES] = {"paddlert_trainer_checkpoint_bytes", CO_GAUGE,
        .help = "Bytes of all its parts"},
    [METER_M_CHECKPOINT_SECONDS] = {"paddlert_trainer_checkpoint_seconds", CO_GAUGE,
        .help = "Time that it took"},
    [METER_M_REPORTED] = {"paddlert_reported", CO_GAUGE, .label = {{"name", meter_names}},
        .help =
            "What the program reported last with rt_report: loss, auc, examples_per_second, ..."},
    [METER_M_REPORTED_STEP] = {"paddlert_reported_step", CO_GAUGE,
        .help = "The step that it reported with it"},
};
