/* The packer of projections, metadata of objects, and labels with numbers. */
#include "operator/api/pack.h"

#include <string.h>

#include "common/cause.h"
#include "common/parse.h"

enum {
    MESSAGE_MAX = 400,
    KUBELET_TAIL = 2048, /* bytes of a container's log that kubelet takes for a missing message */
};

void api_pack_put_n(struct api_packer *p, size_t offset, const char *text, size_t len) {
    p->ref[p->n].offset = offset;
    p->ref[p->n].text = text ? text : "";
    p->ref[p->n++].len = len;
}

void api_pack_put(struct api_packer *p, size_t offset, const char *text) {
    api_pack_put_n(p, offset, text, text ? strlen(text) : 0);
}

static void put_bounded(struct api_packer *p, size_t offset, const char *text, size_t len) {
    if (len > MESSAGE_MAX) {
        len = MESSAGE_MAX;
        while (len > 0 && ((unsigned char)text[len] & 0xC0) == 0x80) {
            len--;
        }
    }
    api_pack_put_n(p, offset, text, len);
}

/* The end of a log that kubelet has cut begins inside of a line, which would say something else. */
static const char *skip_cut_line(const char *text) {
    const char *newline = strlen(text) >= KUBELET_TAIL ? strchr(text, '\n') : NULL;
    return newline ? newline + 1 : text;
}

void api_pack_put_cause(struct api_packer *p, size_t offset, const char *text) {
    size_t len = 0;
    const char *whole = text ? skip_cut_line(text) : "";
    const char *line = co_cause_line(whole, strlen(whole), &len);
    put_bounded(p, offset, line, len);
}

void api_pack_put_last_line(struct api_packer *p, size_t offset, const char *text) {
    size_t end = text ? strlen(text) : 0;
    while (end > 0 && (unsigned char)text[end - 1] <= ' ') {
        end--;
    }
    size_t start = end;
    while (start > 0 && text[start - 1] != '\n' && text[start - 1] != '\r') {
        start--;
    }
    while (start < end && (unsigned char)text[start] <= ' ') {
        start++;
    }
    put_bounded(p, offset, text ? text + start : "", end - start);
}

/* Finds the controlling owner; its name is used only if it is a PaddleJob. */
static void find_owner(const struct co_jnode *owners, struct api_child *child) {
    co_jnode_each(o, owners) {
        if (co_jnode_is(co_jnode_get(o, "controller"), CO_J_TRUE)) {
            child->owner_uid = co_jnode_str(o, "uid");
            if (co_streq(co_jnode_str(o, "kind"), API_KIND) &&
                co_streq(co_jnode_str(o, "apiVersion"), API_VERSION)) {
                child->owner_job = co_jnode_str(o, "name");
            }
            return;
        }
    }
}

bool api_pack_put_meta(struct api_packer *p, const struct co_jnode *obj, struct api_child *child) {
    const struct co_jnode *meta = co_jnode_get(obj, "metadata");
    const struct co_jnode *deleted = co_jnode_get(meta, "deletionTimestamp");
    child->deleting = deleted && !co_jnode_is(deleted, CO_J_NULL);
    child->at = co_time_of(
        child->deleting ? co_jnode_text(deleted) : co_jnode_str(meta, "creationTimestamp"));
    child->name = co_jnode_str(meta, "name");
    child->ns = co_jnode_str(meta, "namespace");
    child->uid = co_jnode_str(meta, "uid");
    child->resource_version = co_jnode_str(meta, "resourceVersion");
    find_owner(co_jnode_get(meta, "ownerReferences"), child);
    api_pack_put(p, offsetof(struct api_child, name), child->name);
    api_pack_put(p, offsetof(struct api_child, ns), child->ns);
    api_pack_put(p, offsetof(struct api_child, uid), child->uid);
    api_pack_put(p, offsetof(struct api_child, resource_version), child->resource_version);
    api_pack_put(p, offsetof(struct api_child, owner_uid), child->owner_uid);
    api_pack_put(p, offsetof(struct api_child, owner_job), child->owner_job);
    return child->name && *child->name;
}

void *api_pack(const struct api_packer *p, const void *proto, size_t size) {
    static const char empty[] = "";
    size_t total = size;
    for (size_t i = 0; i < p->n; i++) {
        total += p->ref[i].len ? p->ref[i].len + 1 : 0;
    }
    char *mem = co_xmalloc(total);
    memcpy(mem, proto, size);
    char *at = mem + size;
    for (size_t i = 0; i < p->n; i++) {
        size_t len = p->ref[i].len;
        const char *text = len ? at : empty;
        memcpy(mem + p->ref[i].offset, &text, sizeof(text)); /* the pointer at that offset */
        if (len) {
            memcpy(at, p->ref[i].text, len);
            at[len] = '\0';
            at += len + 1;
        }
    }
    return mem;
}

int32_t api_label_number(const char *text) {
    size_t n = text ? strlen(text) : 0;
    if (n == 0 || n > 9 || strspn(text, "0123456789") != n) {
        return -1;
    }
    int32_t v = 0;
    for (; *text; text++) {
        v = v * 10 + (*text - '0');
    }
    return v;
}

int32_t api_label_attempt(const char *text) {
    int32_t attempt = api_label_number(text);
    return attempt < 0 ? 0 : attempt;
}
