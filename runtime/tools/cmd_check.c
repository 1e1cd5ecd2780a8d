/* `paddlerun check`: runs all checks and prints a line for each.  What is checked is in
 * runtime/tools/check; this file has the flags and what is printed. */
#include <stdio.h>

#include "common/contract.h"
#include "common/json/json.h"
#include "common/mem.h"
#include "runtime/tools/check/check.h"
#include "runtime/tools/tools.h"

static const char *const results[] = {
    [CHECK_OK] = "ok", [CHECK_SKIPPED] = "skipped", [CHECK_FAILED] = "failed"};

static void print_line(const struct check_outcome *c) {
    (void)printf(
        "%-11s %-8s %6lld ms  %s\n", c->name, results[c->result], (long long)c->ms, c->text);
    (void)fflush(stdout);
}

static json_t *as_json(const struct check_outcome *c) {
    json_t *j = json_object();
    co_json_set(j, "check", json_string(c->name));
    co_json_set(j, "result", json_string(results[c->result]));
    co_json_set(j, "ms", json_integer(c->ms));
    co_json_set(j, "text", co_json_string(c->text));
    return j;
}

int tool_check(int argc, char **argv) {
    const char *checkpoints = co_contract_getenv(CO_VAR_PS_CHECKPOINT_DIR);
    struct check_options o = {0};
    bool json = false, failed = false;
    const struct co_flag flags[] = {
        {"dir", CO_FLAG_STR, &o.dir,
            .help = "where a file is written; default: PADDLE_PS_CHECKPOINT_DIR, or the working "
                    "directory"},
        {"timeout", CO_FLAG_DURATION, &o.timeout_ms, "20s", .help = "how long each check may take"},
        {"json", CO_FLAG_BOOL, &json, .help = "print one JSON object"},
    };
    int rest = 0, code = 0;
    if (!options_command_words("paddlerun check [flags]\n\nTries in seconds whether this machine, "
                               "or this container, can train.  Exit code 1: a check failed.",
            flags, CO_ARRAY_LEN(flags), argc, argv, &rest, &code)) {
        return code;
    }
    if (rest < argc || o.timeout_ms <= 0) {
        (void)fprintf(stderr, "paddlerun check: %s\n",
            rest < argc ? "expected flags only" : "--timeout is 0, expected more");
        return OPTIONS_USAGE;
    }
    o.dir = o.dir[0] ? o.dir : checkpoints && checkpoints[0] ? checkpoints : ".";
    CO_AUTOJSON json_t *all = json_array();
    for (size_t i = 0; i < CHECK_COUNT; i++) {
        struct check_outcome c;
        check_run(i, &o, &c);
        failed |= c.result == CHECK_FAILED;
        if (json) {
            co_json_append(all, as_json(&c));
        } else {
            print_line(&c);
        }
    }
    if (json) {
        CO_AUTOJSON json_t *top = json_object();
        co_json_set(top, "ok", json_boolean(!failed));
        co_json_set(top, "checks", json_incref(all));
        CO_AUTOFREE char *text = co_json_dump(top);
        (void)puts(text);
    }
    return failed;
}
