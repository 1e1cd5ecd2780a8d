/* `paddle-operator validate`: prints file:line for each problem of each job, then a summary. */
#include <stdio.h>
#include <string.h>

#include "crd/unknown.h"
#include "operator/api/job.h"
#include "operator/api/validate_labels.h"
#include "operator/api/validate_pod.h"
#include "operator/api/words.h"
#include "operator/cmd/commands.h"
#include "operator/cmd/files.h"
#include "operator/cmd/vain.h"

struct count {
    size_t jobs, others, problems, odd;
    json_t *places; /* borrowed: "file:line" of each job by "namespace/name" */
};

static void print_problem(void *arg, const char *path, const char *message) {
    const struct opc_position *at = arg;
    (void)printf("%s:%d: %s\n", at->file, opc_position_line(at, path), message);
}

/* Room for another check's, whatever the ones before it have found. */
static struct co_findings *more_of(struct co_findings *to) {
    to->max = to->n + API_PROBLEMS_MAX;
    return to;
}

/* Its restartPolicy is the template's, so that Always keeps the job from its end. */
static bool must_end(const json_t *spec, enum api_role role) {
    static const char *const fields[] = {"backoffLimit", "failurePolicy", "elastic"};
    bool ends = role != API_PS;
    for (size_t i = 0; i < CO_ARRAY_LEN(fields); i++) {
        const json_t *j = json_object_get(spec, fields[i]);
        ends = ends && (!j || json_is_null(j) || (json_is_array(j) && !json_array_size(j)));
    }
    return ends;
}

/* All pods of the job are on the network of their nodes. */
static bool uses_node_network(json_t *obj) {
    CO_CLEANUP(api_job_freep) struct api_job *job = NULL;
    return !api_job_decode(json_incref(obj), &job, NULL) && job->intranet == API_HOST;
}

/* Findings at paths of which api_job_validate has said something already. */
struct more {
    struct co_findings *to;
    const struct api_problem *said; /* [n] */
    size_t n;
};

static void unless_said(void *arg, const char *path, const char *message) {
    const struct more *m = arg;
    for (size_t i = 0; i < m->n; i++) {
        if (strcmp(m->said[i].path, path) == 0) {
            return;
        }
    }
    CO_AUTOFREE char *text = co_xstrdup(message);
    co_finding_as(m->to, path, text);
}

static void check_templates(
    json_t *obj, const struct api_problem *said, size_t n, struct co_findings *to) {
    struct more more = {to, said, n};
    const json_t *spec = json_object_get(obj, "spec");
    bool host = uses_node_network(obj);
    for (enum api_role r = API_PS; r < API_ROLES; r++) {
        const json_t *tmpl = co_json_at(spec, api_role_name(r), "template");
        CO_AUTOFREE char *base = co_xasprintf("spec.%s.template", api_role_name(r));
        if (tmpl) {
            struct co_findings mistyped = {.fn = unless_said, .arg = &more, .max = to->max};
            crd_find_mistyped(tmpl, base, &mistyped);
            crd_find_misspelt(tmpl, base, to);
            const struct api_template_use use = {must_end(spec, r), host};
            api_template_validate(tmpl, use, base, to);
        }
    }
}

/* A job that could be created, but would wait for nothing. */
static void check_lack(json_t *obj, struct co_findings *to) {
    struct co_err err = {0};
    CO_CLEANUP(api_job_freep) struct api_job *job = NULL;
    char text[API_LACK_MAX];
    if (!api_job_decode(json_incref(obj), &job, &err) &&
        api_job_lack(job, text, sizeof(text)) != API_LACK_NOTHING) {
        co_finding_as(to, "spec", text);
    }
}

/* kubectl apply takes the second job of a name for a change of the first. */
static void check_again(json_t *places, json_t *obj, struct co_findings *to) {
    const struct opc_position *in = to->arg;
    const char *name = co_json_str(obj, "metadata", "name");
    const char *ns = co_json_str(obj, "metadata", "namespace");
    CO_AUTOFREE char *key = co_xasprintf("%s/%s", ns ? ns : "", name ? name : "");
    const char *before = co_json_str(places, key);
    if (before) {
        CO_AUTOFREE char *text = co_xasprintf(
            "metadata.name is \"%s\", as of the job of %s: one would replace the other", name,
            before);
        co_finding_as(to, "metadata.name", text);
        return;
    }
    CO_AUTOFREE char *place =
        co_xasprintf("%s:%d", in->file, opc_position_line(in, "metadata.name"));
    co_json_set(places, key, name ? co_json_string(place) : NULL);
}

/* The types of what stands beside the name, which api_job_validate looks at. */
static void check_metadata(const json_t *obj, struct co_findings *to) {
    CO_AUTOJSON json_t *beside = json_object();
    CO_AUTOJSON json_t *own = json_object();
    json_object_update(beside, json_object_get(obj, "metadata"));
    (void)json_object_del(beside, "name");
    co_json_set(own, "metadata", json_incref(beside));
    crd_find_mistyped(own, "", more_of(to));
    api_labels_validate(json_object_get(obj, "metadata"), "metadata", more_of(to));
}

static void check_job(struct count *n, struct opc_position in, json_t *obj) {
    struct co_findings to = {.fn = print_problem, .arg = &in};
    n->jobs++;
    struct api_problem problems[API_PROBLEMS_MAX];
    size_t found = api_job_validate(obj, true, problems, CO_ARRAY_LEN(problems));
    for (size_t i = 0; i < found; i++) {
        print_problem(&in, problems[i].path, problems[i].message);
    }
    if (!found) {
        check_lack(obj, more_of(&to));
    }
    check_again(n->places, obj, more_of(&to));
    opc_vain_find(json_object_get(obj, "spec"), more_of(&to));
    check_metadata(obj, &to);
    check_templates(obj, problems, found, more_of(&to));
    crd_find_unknown(obj, more_of(&to));
    n->problems += found + to.n;
    for (enum api_word_field f = 0; f < API_WORD_FIELDS; f++) {
        char odd[160];
        if (api_word_is_odd(f, json_object_get(obj, "spec"), odd, sizeof(odd))) {
            print_problem(&in, api_word_path(f), odd);
            n->odd++;
        }
    }
}

static int check_object(void *arg, const struct opc_position *at, json_t *obj, struct co_err *err) {
    struct count *n = arg;
    (void)err;
    if (co_streq(co_json_str(obj, "kind"), API_KIND)) {
        check_job(n, *at, obj);
    } else {
        n->others++;
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

static const char usage[] =
    "paddle-operator validate FILE|DIRECTORY|-...\n"
    "\n"
    "Checks PaddleJobs and prints file:line: what is wrong, fields that do not "
    "exist, and values\n"
    "that are replaced by a default; in templates what a cluster would "
    "reject.  Ends with 1 when\n"
    "something is wrong.";

int opc_cmd_validate(int argc, char *argv[]) {
    CO_AUTOJSON json_t *places = json_object();
    struct count n = {.places = places};
    int code = opc_files_command(usage, argc, argv, check_object, &n);
    if (code >= 0) {
        return code;
    }
    print_summary(&n);
    if (!n.jobs) {
        (void)fprintf(stderr, "paddle-operator: no PaddleJob to check\n");
    }
    return n.problems || !n.jobs;
}
