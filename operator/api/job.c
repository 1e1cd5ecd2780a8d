#include "operator/api/job.h"

#include <string.h>

/* Words that mean something; any other keeps the row's fallback. */
struct word {
    const char *text;
    int value;
};

static const struct word clean_words[] = {
    {"", OP_CLEAN_DEFAULT},
    {"Always", OP_CLEAN_ALWAYS},
    {"Never", OP_CLEAN_NEVER},
    {"OnFailure", OP_CLEAN_ON_FAILURE},
    {"OnCompletion", OP_CLEAN_ON_COMPLETION},
    {NULL, OP_CLEAN_OTHER},
};
static const struct word intranet_words[] = {
    {"Service", OP_SERVICE}, {"Host", OP_HOST}, {NULL, OP_POD_IP}};
static const struct word success_words[] = {
    {"AllPods", OP_SUCCESS_ALL}, {NULL, OP_SUCCESS_WORKERS}};

static int word_value(const struct word *rows, const char *text) {
    const struct word *w = rows;
    while (w->text && strcmp(w->text, text ? text : "") != 0) {
        w++;
    }
    return w->value;
}

static const char *text_or_empty(const char *s) {
    return s ? s : "";
}

static int32_t clamp32(const json_t *j, int32_t max) {
    int64_t v = json_is_integer(j) ? json_integer_value(j) : 0;
    return v < 0 ? 0 : v > max ? max : (int32_t)v;
}

static void decode_roles(struct op_job *job, const json_t *spec) {
    for (enum op_role r = OP_PS; r < OP_ROLES; r++) {
        const json_t *j = json_object_get(spec, op_role_name(r));
        struct op_role_spec *role = &job->role[r];
        role->present = json_is_object(j);
        role->replicas = clamp32(json_object_get(j, "replicas"), OP_REPLICAS_MAX);
        const json_t *tmpl = json_object_get(j, "template");
        role->tmpl = json_is_object(tmpl) ? tmpl : NULL;
    }
}

static void decode_spec(struct op_job *job, const json_t *spec) {
    job->clean = (enum op_clean)word_value(clean_words, co_json_str(spec, "cleanPodPolicy"));
    job->intranet = (enum op_intranet)word_value(intranet_words, co_json_str(spec, "intranet"));
    job->success = (enum op_success)word_value(success_words, co_json_str(spec, "successPolicy"));
    const json_t *elastic = json_object_get(spec, "elastic");
    job->elastic = elastic && !json_is_null(elastic);
    decode_roles(job, spec);
    if (job->role[OP_PS].present) {
        job->mode = OP_MODE_PS;
    } else if (job->role[OP_WORKER].present && job->role[OP_WORKER].replicas > 1) {
        job->mode = OP_MODE_COLLECTIVE;
    }
    if (job->role[OP_PS].replicas > 0) {
        job->gloo = clamp32(json_object_get(spec, "withGloo"), INT32_MAX);
    }
}

static void decode_metadata(struct op_job *job, const json_t *meta) {
    job->ns = text_or_empty(co_json_str(meta, "namespace"));
    job->uid = text_or_empty(co_json_str(meta, "uid"));
    job->resource_version = text_or_empty(co_json_str(meta, "resourceVersion"));
    job->generation = json_integer_value(json_object_get(meta, "generation"));
    const json_t *deleted = json_object_get(meta, "deletionTimestamp");
    job->deleting = deleted && !json_is_null(deleted);
    size_t i;
    json_t *f;
    json_array_foreach(json_object_get(meta, "finalizers"), i, f) {
        job->n_finalizers++;
        job->finalizer |= co_streq(json_string_value(f), OP_FINALIZER) != 0;
    }
}

int op_job_decode(json_t *obj_own, struct op_job **ret, struct co_err *err) {
    CO_AUTOJSON json_t *obj = obj_own;
    if (!json_is_object(obj)) {
        return co_err_set(err, CO_INVALID, "not a JSON object, expected a PaddleJob");
    }
    const json_t *meta = json_object_get(obj, "metadata");
    const char *name = co_json_str(meta, "name");
    if (!name || !*name) {
        return co_err_set(err, CO_INVALID, "metadata.name is missing, expected the job's name");
    }
    struct op_job *job = co_xcalloc(1, sizeof(*job));
    job->name = name;
    decode_metadata(job, meta);
    decode_spec(job, json_object_get(obj, "spec"));
    const json_t *status = json_object_get(obj, "status");
    job->status = json_is_object(status) ? status : NULL;
    job->phase = op_phase_parse(co_json_str(job->status, "phase"));

    struct op_problem found[OP_PROBLEMS_MAX];
    job->n_problems = op_job_validate(obj, false, found, OP_PROBLEMS_MAX);
    if (job->n_problems) {
        job->problems = co_xcalloc(job->n_problems, sizeof(*job->problems));
        memcpy(job->problems, found, job->n_problems * sizeof(*found));
    }
    job->json = co_steal_ptr(obj);
    *ret = job;
    return 0;
}

void op_job_free(struct op_job *job) {
    if (job) {
        json_decref(job->json);
        free(job->problems);
        free(job);
    }
}
