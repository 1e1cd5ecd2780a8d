/* `paddle-operator validate`: prints file:line for each problem of each job, then a summary. */
#include "operator/cmd/cmd.h"
#include "operator/cmd/files.h"

#include "common/flag.h"
#include "crd/unknown.h"
#include "operator/api/job.h"
#include "operator/api/validate_pod.h"
#include "operator/api/words.h"

#include <stdio.h>

struct count {
    size_t jobs, others, problems, odd;
};

struct place {
    const char *file;
    const struct co_yaml *yaml;
    const char *prefix; /* of the job in its document: "", or "items.N." in a List */
};

static void print_problem(void *arg, const char *path, const char *message) {
    const struct place *in = arg;
    CO_AUTOFREE char *at = co_xasprintf("%s%s", in->prefix, path);
    (void)printf("%s:%d: %s\n", in->file, co_yaml_line(in->yaml, at), message);
}

/* Its restartPolicy is the template's, so that Always keeps the job from its end. */
static bool must_end(const json_t *spec, enum op_role role) {
    static const char *const fields[] = {"backoffLimit", "failurePolicy", "elastic"};
    bool ends = role != OP_PS;
    for (size_t i = 0; i < CO_ARRAY_LEN(fields); i++) {
        const json_t *j = json_object_get(spec, fields[i]);
        ends = ends && (!j || json_is_null(j) || (json_is_array(j) && !json_array_size(j)));
    }
    return ends;
}

static size_t check_templates(const json_t *obj, struct place *in) {
    size_t n = 0;
    const json_t *spec = json_object_get(obj, "spec");
    for (enum op_role r = OP_PS; r < OP_ROLES; r++) {
        const json_t *tmpl = co_json_at(spec, op_role_name(r), "template");
        CO_AUTOFREE char *base = co_xasprintf("spec.%s.template", op_role_name(r));
        if (tmpl) {
            n += crd_find_mistyped(tmpl, base, OP_PROBLEMS_MAX - n, print_problem, in);
            n += op_template_validate(
                tmpl, must_end(spec, r), base, OP_PROBLEMS_MAX - n, print_problem, in);
        }
    }
    return n;
}

/* A job that could be created, but would wait for nothing. */
static size_t check_lack(json_t *obj, struct place *in) {
    struct co_err err = {0};
    CO_CLEANUP(op_job_freep) struct op_job *job = NULL;
    char text[OP_LACK_MAX];
    if (op_job_decode(json_incref(obj), &job, &err) ||
        op_job_lack(job, text, sizeof(text)) == OP_LACK_NOTHING) {
        return 0;
    }
    print_problem(in, "spec", text);
    return 1;
}

static void check_job(struct count *n, struct place in, json_t *obj) {
    n->jobs++;
    struct op_problem problems[OP_PROBLEMS_MAX];
    size_t found = op_job_validate(obj, true, problems, CO_ARRAY_LEN(problems));
    for (size_t i = 0; i < found; i++) {
        print_problem(&in, problems[i].path, problems[i].message);
    }
    n->problems += found ? found : check_lack(obj, &in);
    n->problems += check_templates(obj, &in);
    n->problems += crd_find_unknown(obj, OP_PROBLEMS_MAX, print_problem, &in);
    for (enum op_word_field f = 0; f < OP_WORD_FIELDS; f++) {
        char odd[160];
        if (op_word_is_odd(f, json_object_get(obj, "spec"), odd, sizeof(odd))) {
            print_problem(&in, op_word_path(f), odd);
            n->odd++;
        }
    }
}

/* A document: a job, a List of objects as kubectl get prints it, or another object. */
static int check_document(
    void *arg, const char *file, const struct co_yaml *y, json_t *obj, struct co_err *err) {
    struct count *n = arg;
    const char *kind = co_json_str(obj, "kind");
    const json_t *items = json_object_get(obj, "items");
    size_t i;
    json_t *item;
    (void)err;
    if (co_streq(kind, OP_KIND)) {
        check_job(n, (struct place){file, y, ""}, obj);
    } else if (!json_is_array(items) ||
               !(co_streq(kind, "List") || co_streq(kind, OP_KIND "List"))) {
        n->others++;
    }
    json_array_foreach(co_streq(kind, OP_KIND) ? NULL : items, i, item) {
        CO_AUTOFREE char *prefix = co_xasprintf("items.%zu.", i);
        if (co_streq(co_json_str(item, "kind"), OP_KIND)) {
            check_job(n, (struct place){file, y, prefix}, item);
        } else if (co_streq(kind, "List")) {
            n->others++;
        }
    }
    return 0;
}

static void print_summary(const struct count *n) {
    (void)printf("%zu job%s, %zu problem%s", n->jobs, n->jobs == 1 ? "" : "s", n->problems,
        n->problems == 1 ? "" : "s");
    if (n->odd) { /* the operator carries such a job out, as upstream's does */
        (void)printf(", %zu unknown value%s", n->odd, n->odd == 1 ? "" : "s");
    }
    if (n->others) {
        (void)printf(", %zu other object%s not looked at", n->others, n->others == 1 ? "" : "s");
    }
    (void)printf("\n");
}

static const char usage[] = "paddle-operator validate FILE|DIRECTORY|-...\n"
                            "\n"
                            "Checks PaddleJobs and prints file:line: what is wrong, which fields "
                            "there are none of, and which\n"
                            "words are taken for others; in templates what a cluster would "
                            "reject.  Ends with 1 when\n"
                            "something is wrong.";

int op_cmd_validate(int argc, char *argv[]) {
    struct co_err err = {0};
    int rest = argc;
    int r = co_flags_parse(NULL, 0, argc, argv, &rest, &err);
    if (r == CO_CANCELED || (!r && rest == argc)) {
        co_flags_help(r ? stdout : stderr, usage, NULL, 0);
        return r ? 0 : 2;
    }
    struct count n = {0};
    for (; !r && rest < argc; rest++) {
        r = op_files_read(argv[rest], check_document, &n, &err);
    }
    if (r) {
        (void)fprintf(stderr, "paddle-operator: %s\n", co_err_text(&err));
        return 1;
    }
    print_summary(&n);
    if (!n.jobs) {
        (void)fprintf(stderr, "paddle-operator: no PaddleJob to check\n");
    }
    return n.problems || !n.jobs;
}
