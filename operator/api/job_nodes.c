/* Decodes a job from nodes in bounded memory; of a job that is too large, only its small parts. */
#include <stdio.h>
#include <string.h>

#include "operator/api/job.h"

enum {
    /* Bytes of a job that is too large: the most for one member, and for all that is decoded. */
    MEMBER_MAX = 16 * 1024,
    PART_MAX = 512 * 1024,
};

/* No plan reads them, and kubectl's annotation contains the whole object again. */
static bool is_note(const char *key) {
    return strcmp(key, "annotations") == 0 || strcmp(key, "managedFields") == 0;
}

/* Copies the members of an object that have at most `most` bytes, as long as *left allows.  A
 * larger member is entered, up to `depth` levels deep, and its small members are copied. */
static json_t *copy_members(/* NOLINT(misc-no-recursion) */
    const struct co_jnode *object, int depth, size_t most, size_t *left) {
    json_t *ret = json_object();
    if (!co_jnode_is(object, CO_J_OBJECT)) {
        return ret;
    }
    for (const struct co_jnode *k = object + 1; k < object + object->size; k += 1 + k[1].size) {
        const struct co_jnode *value = k + 1;
        size_t bytes = co_json_nodes_bytes(k) + co_json_nodes_bytes(value);
        if (is_note(k->text)) {
            continue;
        }
        if (bytes <= most && bytes <= *left) {
            *left -= bytes;
            co_json_set(ret, k->text, co_json_of_nodes(value));
        } else if (depth && co_jnode_is(value, CO_J_OBJECT)) {
            co_json_set(ret, k->text, copy_members(value, depth - 1, most, left));
        }
    }
    return ret;
}

/* Replaces the job's problems by this one, because the rest of the spec was not checked. */
static void set_too_large(struct api_job *job, size_t bytes, size_t most) {
    enum { MIB = 1024 * 1024 };
    struct api_problem *p = co_xcalloc(1, sizeof(*p));
    p->code = API_PROBLEM_SIZE;
    (void)snprintf(p->path, sizeof(p->path), "spec");
    (void)snprintf(p->message, sizeof(p->message),
        "spec takes %zu MiB of the operator's memory, which has %zu MiB for one job: make it "
        "smaller (many small values take most), or give the operator more memory",
        (bytes + MIB - 1) / MIB, most / MIB);
    free(job->problems);
    job->problems = p;
    job->n_problems = 1;
}

int api_job_of_nodes(
    const struct co_jnode *nodes, size_t most, struct api_job **ret, struct co_err *err) {
    const struct co_jnode *meta = co_jnode_get(nodes, "metadata");
    const struct co_jnode *spec = co_jnode_get(nodes, "spec");
    const struct co_jnode *status = co_jnode_get(nodes, "status");
    size_t bytes = co_json_nodes_bytes(meta) + co_json_nodes_bytes(spec) -
                   co_json_nodes_bytes(co_jnode_get(meta, "annotations")) -
                   co_json_nodes_bytes(co_jnode_get(meta, "managedFields"));
    bool large = bytes > most;
    size_t left = large ? PART_MAX : SIZE_MAX;
    size_t member = large ? MEMBER_MAX : SIZE_MAX;
    if (co_json_nodes_bytes(status) > most / 2) {
        return co_err_set(err, CO_INVALID, "a status that takes %zu bytes of memory, of %zu",
            co_json_nodes_bytes(status), most / 2);
    }
    json_t *obj = json_object();
    co_json_set(obj, "metadata", copy_members(meta, 0, member, &left));
    co_json_set(obj, "spec", spec ? copy_members(spec, 1, member, &left) : NULL);
    co_json_set(obj, "status", status ? co_json_of_nodes(status) : NULL);
    int r = api_job_decode(obj, ret, err);
    if (!r && large) {
        set_too_large(*ret, bytes, most);
    }
    return r;
}
