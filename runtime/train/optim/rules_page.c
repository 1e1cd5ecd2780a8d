/* What rules, schedules and initialisers there are, as a page. */
#include "runtime/train/optim/rules_page.h"

#include "common/mem.h"
#include "runtime/train/optim/init.h"
#include "runtime/train/optim/optim.h"
#include "runtime/train/optim/row_kinds.h"
#include "runtime/train/optim/schedule.h"

/* A table of names with a table of parameters behind it. */
static const char rules_text[] =
    "Of tables (`optimizer` in `struct rt_table_spec`), and of `rt_optimizer_new`: "
    "`adagrad:lr=0.05,epsilon=1e-6`. p is a value, g its gradient, t the number of updates of its "
    "row, [x] the mean of x over the row; state is what is kept with it. Rules for whole rows are "
    "not for dense tables, which are cut into pieces.\n\n"
    "| rule | state a value | a row | lr | formula | |\n| --- | --- | --- | --- | --- | --- |\n";
static const char common_text[] =
    "\n### What all rules have\n\n"
    "The gradient is put within clip_value, then scaled to clip_norm (sparse tables: row by row; "
    "not "
    "for dense ones); then decay is added; then comes the rule; then bounds.\n\n"
    "| parameter | default | |\n| --- | --- | --- |\n";
static const char own_text[] = "\n### What rules have of their own\n\n"
                               "| rule | parameter | default | |\n| --- | --- | --- | --- |\n";
static const char schedules_text[] =
    "\n## Learning rates over time\n\n"
    "Of tables (`schedule` in `struct rt_table_spec`), and of `rt_schedule_new`: "
    "`cosine:steps=10000,warmup=500`, `piecewise:at=100:200,values=1:0.1:0.01`. lr is the rule's, "
    "or "
    "what `rt_set_rate` has made of it; t counts steps, from 0; n is t / steps, or its floor with "
    "staircase=1.\n\n"
    "| schedule | formula | Paddle's |\n| --- | --- | --- |\n";
static const char params_text[] =
    "\n### Parameters\n\n"
    "| schedule | parameter | default | |\n| --- | --- | --- | --- |\n";
static const char init_text[] = "\n## First values of rows\n\n"
                                "Of sparse tables (`init` in `struct rt_table_spec`): "
                                "`uniform:min=-0.1,max=0.1`. u(k) is uniform "
                                "and n normal, pure functions of seed, id and place in the row.\n\n"
                                "| initialiser | formula | |\n| --- | --- | --- |\n";
static const char init_params_text[] =
    "\n### Parameters\n\n"
    "| initialiser | parameter | default | |\n| --- | --- | --- | --- |\n";

static int add_rules(struct co_buf *to, struct co_err *err) {
    size_t n;
    const struct optim_rule *rules = optim_rules(&n);
    CO_TRY(co_buf_adds(to, rules_text, err));

    for (size_t i = 0; i < n; i++) {
        CO_TRY(co_buf_addf(to, err, "| `%s` | %zu | %zu | %g | %s | %s%s |\n", rules[i].name,
            rules[i].planes, rules[i].scalars, (double)rules[i].lr, rules[i].formula, rules[i].help,
            rules[i].whole ? "; whole rows" : ""));
    }
    return 0;
}

static int add_hypers(struct co_buf *to, struct co_err *err) {
    size_t n;
    const struct optim_rule *rules = optim_rules(&n);
    const struct optim_hyper *h;
    CO_TRY(co_buf_adds(to, common_text, err));

    for (size_t i = OPTIM_LR + 1; i < OPTIM_COMMON; i++) {
        h = optim_hyper_at(&rules[0], i);
        CO_TRY(co_buf_addf(to, err, "| `%s` | %g | %s |\n", h->name, (double)h->initial, h->help));
    }
    CO_TRY(co_buf_adds(to, own_text, err));
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < rules[i].n_hypers; k++) {
            h = &rules[i].hypers[k];
            CO_TRY(co_buf_addf(to, err, "| `%s` | `%s` | %g | %s |\n", rules[i].name, h->name,
                (double)h->initial, h->help));
        }
    }
    return 0;
}

static int add_params(struct co_buf *to, const struct optim_schedule_kind *k, struct co_err *err) {
    for (size_t i = 0; i < OPTIM_SCHEDULE_PARAMS && k->params[i].name; i++) {
        const struct optim_schedule_param *p = &k->params[i];

        CO_TRY(co_buf_addf(
            to, err, "| `%s` | `%s` | %g | %s |\n", k->name, p->name, p->initial, p->help));
    }
    if (k->at) {
        CO_TRY(co_buf_addf(to, err, "| `%s` | `at` | | steps, ascending: `100:200` |\n", k->name));
    }
    if (k->values) {
        CO_TRY(co_buf_addf(to, err, "| `%s` | `values` | | as many%s, of lr: `1:0.1%s` |\n",
            k->name, k->values == 2 ? " and one" : "", k->values == 2 ? ":0.01" : ""));
    }
    return 0;
}

static int add_schedules(struct co_buf *to, struct co_err *err) {
    size_t n, n_common;
    const struct optim_schedule_kind *kinds = optim_schedule_kinds(&n);
    const struct optim_schedule_param *common = optim_schedule_common(&n_common);
    CO_TRY(co_buf_adds(to, schedules_text, err));

    for (size_t i = 0; i < n; i++) {
        CO_TRY(co_buf_addf(
            to, err, "| `%s` | %s | %s |\n", kinds[i].name, kinds[i].formula, kinds[i].help));
    }
    CO_TRY(co_buf_adds(to, params_text, err));
    for (size_t i = 0; i < n_common; i++) {
        CO_TRY(co_buf_addf(to, err, "| all | `%s` | %g | %s |\n", common[i].name, common[i].initial,
            common[i].help));
    }
    for (size_t i = 0; i < n; i++) {
        CO_TRY(add_params(to, &kinds[i], err));
    }
    return 0;
}

static int add_initialisers(struct co_buf *to, struct co_err *err) {
    size_t n;
    const struct optim_init_kind *kinds = optim_init_kinds(&n);
    CO_TRY(co_buf_adds(to, init_text, err));

    for (size_t i = 0; i < n; i++) {
        CO_TRY(co_buf_addf(
            to, err, "| `%s` | %s | %s |\n", kinds[i].name, kinds[i].formula, kinds[i].help));
    }
    CO_TRY(co_buf_adds(to, init_params_text, err));
    for (size_t i = 0; i < n * OPTIM_INIT_PARAMS; i++) {
        const struct optim_init_kind *k = &kinds[i / OPTIM_INIT_PARAMS];
        const struct optim_init_param *p = &k->params[i % OPTIM_INIT_PARAMS];

        if (p->name) {
            CO_TRY(co_buf_addf(
                to, err, "| `%s` | `%s` | %g | %s |\n", k->name, p->name, p->initial, p->help));
        }
    }
    return 0;
}

static const char rows_text[] =
    "\n## Which rows a table has\n\n"
    "Of sparse tables (`admit` and `evict` in `struct rt_table_spec`): `count:n=3`, "
    "`ttl:seconds=86400`. The score of shows s with clicks c is (s - c) nonclk_coeff + c "
    "click_coeff.\n\n";

static int add_row_kinds(struct co_buf *to, const char *what, const struct optim_row_kind *kinds,
    size_t n, struct co_err *err) {
    CO_TRY(co_buf_addf(to, err, "| %s | |\n| --- | --- |\n", what));
    for (size_t i = 0; i < n; i++) {
        CO_TRY(co_buf_addf(to, err, "| `%s` | %s |\n", kinds[i].name, kinds[i].help));
    }
    CO_TRY(co_buf_addf(
        to, err, "\n| %s | parameter | default | |\n| --- | --- | --- | --- |\n", what));
    for (size_t i = 0; i < n * OPTIM_ROW_PARAMS; i++) {
        const struct optim_row_kind *k = &kinds[i / OPTIM_ROW_PARAMS];
        const struct optim_row_param *p = &k->params[i % OPTIM_ROW_PARAMS];

        if (p->name) {
            CO_TRY(co_buf_addf(
                to, err, "| `%s` | `%s` | %g | %s |\n", k->name, p->name, p->initial, p->help));
        }
    }
    return 0;
}

static int add_rows(struct co_buf *to, struct co_err *err) {
    size_t n;
    const struct optim_row_kind *kinds = optim_admit_kinds(&n);
    CO_TRY(co_buf_adds(to, rows_text, err));
    CO_TRY(add_row_kinds(to, "admit", kinds, n, err));
    kinds = optim_evict_kinds(&n);
    CO_TRY(co_buf_adds(to, "\n", err));
    return add_row_kinds(to, "evict", kinds, n, err);
}

int optim_markdown(struct co_buf *to, struct co_err *err) {
    CO_TRY(add_rules(to, err));
    CO_TRY(add_hypers(to, err));
    CO_TRY(add_schedules(to, err));
    CO_TRY(add_initialisers(to, err));
    return add_rows(to, err);
}
