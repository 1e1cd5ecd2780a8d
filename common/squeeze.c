/* Compression by zlib.  A text that does not become shorter is stored as it is. */
#include "common/squeeze.h"

#include "common/mem.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

enum {
    LEVEL = 1,
    WINDOW = -13, /* 8 KiB; negative: without zlib's head and checksum */
    MEMORY = 4,   /* zlib's memLevel: tables of 8 KiB */
};

static void *zlib_alloc(void *arg, uInt n, uInt size) {
    (void)arg;
    return co_xcalloc(n, size);
}

static void zlib_free(void *arg, void *p) {
    (void)arg;
    free(p);
}

/* zlib takes pointers to non-const data, but only reads. */
static Bytef *bytes_of(const void *p) {
    return (Bytef *)(uintptr_t)p;
}

struct co_squeezed co_squeeze(
    struct co_slab *slab, const char *text, size_t len, const char *like) {
    z_stream z = {.zalloc = zlib_alloc, .zfree = zlib_free};
    size_t size = len;
    CO_AUTOFREE char *small = NULL;
    if (len <= CO_SQUEEZE_MAX &&
        deflateInit2(&z, LEVEL, Z_DEFLATED, WINDOW, MEMORY, Z_DEFAULT_STRATEGY) == Z_OK) {
        small = co_xmalloc(len);
        (void)deflateSetDictionary(&z, bytes_of(like), (uInt)strlen(like));
        z.next_in = bytes_of(text);
        z.avail_in = (uInt)len;
        z.next_out = (Bytef *)small;
        z.avail_out = (uInt)len;
        size = deflate(&z, Z_FINISH) == Z_STREAM_END ? len - z.avail_out : len;
        (void)deflateEnd(&z);
    }
    struct co_squeezed s = {co_slab_alloc(slab, size), size, len};
    memcpy(s.data, size < len ? small : text, size);
    return s;
}

char *co_unsqueeze(const struct co_squeezed *s, const char *like) {
    char *text = co_xmalloc(s->len + 1);
    text[s->len] = '\0';
    if (s->size == s->len) {
        memcpy(text, s->data, s->len);
        return text;
    }
    z_stream z = {.zalloc = zlib_alloc,
        .zfree = zlib_free,
        .next_in = bytes_of(s->data),
        .avail_in = (uInt)s->size,
        .next_out = (Bytef *)text,
        .avail_out = (uInt)s->len};
    int r = inflateInit2(&z, WINDOW);
    assert(r == Z_OK);
    (void)inflateSetDictionary(&z, bytes_of(like), (uInt)strlen(like));
    r = inflate(&z, Z_FINISH);
    assert(r == Z_STREAM_END && z.avail_out == 0);
    (void)r;
    (void)inflateEnd(&z);
    return text;
}
