/* Which rows a table has: the kinds of admission and eviction, as a page. */
#include "runtime/train/table/policy_page.h"

#include "runtime/train/table/policy.h"

static const char intro[] =
    "\n## Which rows a table has\n\n"
    "Of sparse tables (`admit` and `evict` in `struct rt_table_spec`): `count:n=3`, "
    "`ttl:seconds=86400`. The score of shows s with clicks c is (s - c) nonclk_coeff + c "
    "click_coeff.\n\n";

static int add_kinds(struct co_buf *to, const char *what, const struct table_policy_kind *kinds,
    size_t n, struct co_err *err) {
    CO_TRY(co_buf_addf(to, err, "| %s | |\n| --- | --- |\n", what));
    for (size_t i = 0; i < n; i++) {
        CO_TRY(co_buf_addf(to, err, "| `%s` | %s |\n", kinds[i].name, kinds[i].help));
    }
    CO_TRY(co_buf_addf(
        to, err, "\n| %s | parameter | default | |\n| --- | --- | --- | --- |\n", what));
    for (size_t i = 0; i < n * TABLE_POLICY_PARAMS; i++) {
        const struct table_policy_kind *k = &kinds[i / TABLE_POLICY_PARAMS];
        const struct table_policy_param *p = &k->params[i % TABLE_POLICY_PARAMS];

        if (p->name) {
            CO_TRY(co_buf_addf(
                to, err, "| `%s` | `%s` | %g | %s |\n", k->name, p->name, p->initial, p->help));
        }
    }
    return 0;
}

int table_policy_markdown(struct co_buf *to, struct co_err *err) {
    size_t n;
    const struct table_policy_kind *kinds = table_admit_kinds(&n);
    CO_TRY(co_buf_adds(to, intro, err));
    CO_TRY(add_kinds(to, "admit", kinds, n, err));
    kinds = table_evict_kinds(&n);
    CO_TRY(co_buf_adds(to, "\n", err));
    return add_kinds(to, "evict", kinds, n, err);
}
