/* Formats and parses the requests and answers of wire.h. */
#include "runtime/launch/rendezvous/wire.h"

#include <stdio.h>
#include <string.h>

#include <zlib.h>

static const char *const words[] = {[RDZV_NODE_JOINING] = "join",
    [RDZV_NODE_RUNNING] = "run",
    [RDZV_NODE_STOPPING] = "stop",
    [RDZV_NODE_DONE] = "done"};
static const char *const parting[] = {"leave", "restart"};
static const char *const kinds[] = {[RDZV_WIRE_WAIT] = "wait",
    [RDZV_WIRE_MET] = "met",
    [RDZV_WIRE_LATE] = "mute",
    [RDZV_WIRE_CHANGED] = "changed",
    [RDZV_WIRE_DONE] = "done",
    [RDZV_WIRE_OVER] = "over",
    [RDZV_WIRE_REFUSED] = "refused"};

static int find_word(const char *const *list, size_t n, const char *word) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i], word) == 0) {
            return (int)i;
        }
    }
    return -1;
}

void rdzv_wire_hello_format(const struct rdzv_wire_hello *h, bool leave, char *ret_text) {
    (void)snprintf(ret_text, RDZV_WIRE_TEXT, "1 %s %s %d %d:%d %s", h->id,
        leave ? parting[h->restart] : words[h->state], leave && !h->restart ? h->code : h->round,
        h->min, h->max, h->host[0] ? h->host : "-");
}

int rdzv_wire_hello_parse(
    const char *text, bool leave, struct rdzv_wire_hello *ret, struct co_err *err) {
    struct rdzv_wire_hello h = {0};
    char word[8], number[12], min[8], max[8];
    int used = 0;
    int64_t n = 0, lo = 0, hi = 0;
    int got = sscanf(text, "1 %16[0-9a-f] %7[a-z] %11[-0-9] %7[0-9]:%7[0-9] %255[!-~]%n", h.id,
        word, number, min, max, h.host, &used);
    int w = got == 6 ? find_word(leave ? parting : words,
                           leave ? CO_ARRAY_LEN(parting) : CO_ARRAY_LEN(words), word)
                     : -1;
    if (w < 0 || text[used] ||
        co_parse_i64("number", number, leave ? INT16_MIN : 0, INT32_MAX, &n, NULL) ||
        co_parse_i64("max", max, 1, RDZV_GROUP_NODES_MAX, &hi, NULL) ||
        co_parse_i64("min", min, 1, hi, &lo, NULL)) {
        return co_err_set(err, CO_INVALID, "malformed message of a node: \"%.100s\"", text);
    }
    h.state = leave ? RDZV_NODE_STOPPING : (enum rdzv_node_state)w;
    h.restart = leave && w == 1;
    const bool code = leave && !h.restart;
    h.round = code ? 0 : (int)n;
    h.code = code ? (int)n : 0;
    h.min = (int)lo;
    h.max = (int)hi;
    *ret = h;
    return 0;
}

int rdzv_wire_key_parse(
    const char *key, char ret_name[CO_HOST_MAX], int *ret_rank, struct co_err *err) {
    const char *slash = strrchr(key, '/');
    int64_t rank;
    if (!slash || slash == key || slash - key >= CO_HOST_MAX ||
        memchr(key, '/', (size_t)(slash - key)) ||
        co_parse_i64("rank", slash + 1, -1, RDZV_GROUP_NODES_MAX - 1, &rank, NULL)) {
        return co_err_set(
            err, CO_INVALID, "key \"%.100s\" is not that of a node, expected name/rank", key);
    }
    memcpy(ret_name, key, (size_t)(slash - key));
    ret_name[slash - key] = '\0';
    *ret_rank = (int)rank;
    return 0;
}

/* ---- answers ---- */

void rdzv_wire_format(struct co_buf *ret, enum rdzv_wire_kind kind, int number, const char *text) {
    (void)!co_buf_addf(ret, NULL, "paddlerun %s %d %.600s\n", kinds[kind], number, text);
}

/* Packs names and values, each with its NUL, and deflates them. */
int rdzv_wire_pack(const struct rdzv_wire_peer *peers, size_t n, struct co_buf *ret,
    size_t *ret_raw, struct co_err *err) {
    CO_AUTOBUF struct co_buf raw = CO_BUF(RDZV_WIRE_RAW_MAX);
    for (size_t i = 0; i < n; i++) {
        if (co_buf_add(&raw, peers[i].name, strlen(peers[i].name) + 1, err) ||
            co_buf_add(&raw, peers[i].value, strlen(peers[i].value) + 1, err)) {
            return co_err_wrap(err, "values of %zu nodes", n);
        }
    }
    uLongf len = compressBound((uLong)raw.len);
    CO_TRY(co_buf_reserve(ret, len, err));
    if (compress2((Bytef *)ret->data + ret->len, &len, (const Bytef *)raw.data, (uLong)raw.len,
            Z_DEFAULT_COMPRESSION) != Z_OK) {
        return co_err_set(err, CO_NOMEMORY, "cannot deflate the values of %zu nodes", n);
    }
    ret->len += len;
    *ret_raw = raw.len;
    return 0;
}

int rdzv_wire_met(int round, size_t self, size_t n, size_t raw, const struct co_buf *packed,
    struct co_buf *ret, struct co_err *err) {
    CO_TRY(co_buf_addf(ret, err, "paddlerun met %d %zu %zu %zu\n", round, self, n, raw));
    return co_buf_add(ret, packed->data, packed->len, err);
}

void rdzv_wire_answer_done(struct rdzv_wire_answer *a) {
    free(a->peers);
    free(a->raw);
    *a = (struct rdzv_wire_answer){0};
}

static int unpack_peers(const char *packed, size_t len, size_t raw_len, struct rdzv_wire_answer *a,
    struct co_err *err) {
    void *raw = NULL, *peers = NULL;
    uLongf got = (uLongf)raw_len;
    CO_TRY(co_try_alloc(raw_len + 1, 1, RDZV_WIRE_RAW_MAX, "values of nodes", &raw, err));
    a->raw = raw;
    CO_TRY(co_try_alloc(a->n, sizeof(*a->peers), RDZV_WIRE_RAW_MAX, "nodes", &peers, err));
    a->peers = peers;
    if (uncompress(raw, &got, (const Bytef *)packed, (uLong)len) != Z_OK || got != raw_len) {
        return co_err_set(err, CO_INVALID, "the master's list of nodes is damaged");
    }
    const char *at = a->raw, *end = a->raw + raw_len;
    for (size_t i = 0; i < 2 * a->n; i++) {
        const char *nul = memchr(at, '\0', (size_t)(end - at));
        if (!nul) {
            return co_err_set(err, CO_INVALID, "the master's list of nodes ends early");
        }
        *(i % 2 ? &a->peers[i / 2].value : &a->peers[i / 2].name) = at;
        at = nul + 1;
    }
    return 0;
}

static int parse_met(const char *line, const char *packed, size_t len, struct rdzv_wire_answer *a,
    struct co_err *err) {
    long long raw = 0, n = 0, self = -1;
    int round = 0, used = -1;
    if (sscanf(line, "%9d %9lld %9lld %12lld%n", &round, &self, &n, &raw, &used) != 4 ||
        line[used] || round < 1 || n < 1 || n > RDZV_GROUP_NODES_MAX || self < 0 || self >= n ||
        raw < 2 * n || raw > RDZV_WIRE_RAW_MAX) {
        return co_err_set(err, CO_INVALID, "malformed answer of the master: \"met %.60s\"", line);
    }
    a->round = round;
    a->self = (size_t)self;
    a->n = (size_t)n;
    return unpack_peers(packed, len, (size_t)raw, a, err);
}

static int parse_text(const char *line, struct rdzv_wire_answer *a, struct co_err *err) {
    int number = 0, used = -1;
    if (sscanf(line, "%9d%n", &number, &used) != 1 || line[used] != ' ') {
        return co_err_set(err, CO_INVALID, "malformed answer of the master: \"%.60s\"", line);
    }
    bool ends = a->kind == RDZV_WIRE_OVER || a->kind == RDZV_WIRE_REFUSED;
    a->code = !ends ? 0 : number <= 0 && number >= CO_DAMAGED ? number : CO_PEERLOST;
    a->round = ends ? 0 : number;
    (void)snprintf(a->text, sizeof(a->text), "%s", line + used + 1);
    return 0;
}

int rdzv_wire_answer_parse(
    const char *body, size_t len, struct rdzv_wire_answer *ret, struct co_err *err) {
    CO_CLEANUP(rdzv_wire_answer_done) struct rdzv_wire_answer a = {0};
    char line[720], kind[8];
    int used = -1;
    const char *end = memchr(body, '\n', len);
    if (!end || (size_t)(end - body) >= sizeof(line)) {
        return co_err_set(err, CO_UNSUPPORTED, "no answer of a paddlerun");
    }
    memcpy(line, body, (size_t)(end - body));
    line[end - body] = '\0';
    if (strlen(line) != (size_t)(end - body) ||
        sscanf(line, "paddlerun %7[a-z]%n", kind, &used) != 1 || line[used] != ' ') {
        return co_err_set(err, CO_UNSUPPORTED, "no answer of a paddlerun");
    }
    int k = find_word(kinds, CO_ARRAY_LEN(kinds), kind);
    if (k < 0) {
        return co_err_set(err, CO_INVALID, "malformed answer of the master: \"%.60s\"", line);
    }
    a.kind = (enum rdzv_wire_kind)k;
    size_t left = len - (size_t)(end + 1 - body);
    CO_TRY(a.kind == RDZV_WIRE_MET ? parse_met(line + used + 1, end + 1, left, &a, err)
                                   : parse_text(line + used + 1, &a, err));
    *ret = a;
    a = (struct rdzv_wire_answer){0};
    return 0;
}
