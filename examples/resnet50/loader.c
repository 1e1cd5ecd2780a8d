/* Threads take the places of an epoch's order one by one.  Place k belongs to batch b = k / batch,
 * which goes into slot b % ahead; a thread that has place k waits until the slot is free. */
#include "examples/resnet50/loader.h"

#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/log.h"
#include "examples/nn/rng.h"
#include "examples/resnet50/image.h"

struct slot {
    float *images;
    uint32_t *labels;
    size_t left; /* samples of its batch that are not finished */
};

struct rn_loader {
    struct rn_loader_config config;
    pthread_t *threads;
    size_t n_threads;

    pthread_mutex_t lock; /* guards all that follows */
    pthread_cond_t room, filled;
    struct slot *slots;
    uint32_t *order;
    size_t n, next; /* number of places; the next one that a thread gets */
    size_t taken;   /* batches that the caller has taken */
    size_t busy;    /* threads that work on a place */
    uint32_t epoch;
    bool stop;
    bool *bad; /* by index in the data set */
    size_t n_bad;
    struct co_err err; /* the first failure */
};

/* ---- one picture ----------------------------------------------------------------------------- */

static int file_decode(const char *path, struct rn_image *ret_image, struct co_err *err) {
    CO_AUTOBUF struct co_buf file = CO_BUF(RN_JPEG_BYTES_MAX);
    struct stat st;

    /* A pipe that nobody writes to would be waited for without end. */
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        return co_err_set(err, CO_INVALID, "%s: a folder, pipe or device, expected a file", path);
    }
    int rc = co_file_read(path, RN_JPEG_BYTES_MAX, &file, err);

    if (rc < 0) {
        return rc;
    }
    rc = rn_jpeg_decode(file.data, file.len, ret_image, err);
    return rc < 0 ? co_err_wrap(err, "%s", path) : 0;
}

static int picture_read(const struct rn_flowers *f, const struct rn_flower *flower,
    const struct rn_view *view, float *ret_pixels, struct co_err *err) {
    struct rn_image image = {0};
    int rc = 0;

    if (flower->path) {
        rc = file_decode(flower->path, &image, err);
    } else {
        image = rn_gen_image(&f->gen, flower->index);
    }
    if (rc == 0) {
        rn_image_prepare(&image, view, ret_pixels);
    }
    rn_image_done(&image);
    return rc;
}

static void bad_note(struct rn_loader *l, uint32_t index, const struct co_err *err) {
    (void)pthread_mutex_lock(&l->lock);
    bool first = !l->bad[index];
    l->bad[index] = true;
    l->n_bad += first;
    (void)pthread_mutex_unlock(&l->lock);
    if (first) {
        co_log_warn("image left out, the next one takes its place", CO_E(err));
    }
}

/* Makes one sample; if its picture is bad, from the next good one of the data set. */
static int sample_make(struct rn_loader *l, uint32_t index, uint64_t random, float *ret_pixels,
    uint32_t *ret_label, struct co_err *err) {
    const struct rn_flowers *f = l->config.flowers;
    const struct rn_view view = {
        .size = l->config.image, .augment = l->config.augment, .random = random};
    int rc = 0;

    for (size_t tried = 0; tried < f->n; tried++) {
        uint32_t at = (uint32_t)((index + tried) % f->n);

        rc = picture_read(f, &f->images[at], &view, ret_pixels, err);
        if (rc == 0) {
            *ret_label = f->images[at].label;
            return 0;
        }
        if (l->config.fail_bad) {
            return rc;
        }
        bad_note(l, at, err);
    }
    return co_err_set(err, CO_INVALID, "none of %zu images can be read", f->n);
}

int rn_loader_probe(const struct rn_flowers *f, bool fail_bad, struct co_err *err) {
    struct co_err first = {0}, why = {0};

    for (size_t i = 0; i < f->n; i++) {
        struct rn_image image = {0};
        int rc = f->images[i].path ? file_decode(f->images[i].path, &image, &why) : 0;

        rn_image_done(&image);
        if (rc == 0) {
            return 0;
        }
        if (fail_bad) {
            return co_err_set(err, rc, "%s", co_err_text(&why));
        }
        first = i == 0 ? why : first;
        why = (struct co_err){0};
    }
    return co_err_set(
        err, CO_INVALID, "none of %zu images can be read, first: %s", f->n, co_err_text(&first));
}

/* ---- threads --------------------------------------------------------------------------------- */

static bool place_free(const struct rn_loader *l) {
    return l->next < l->n && l->err.code == 0 &&
           l->next / l->config.batch < l->taken + l->config.ahead;
}

static size_t pixels_of(const struct rn_loader *l) {
    return (size_t)3 * l->config.image * l->config.image;
}

/* Makes the sample of the next place.  Call with the lock held; it is released meanwhile. */
static void place_make(struct rn_loader *l) {
    size_t place = l->next++, batch = l->config.batch, in_batch = place % batch;
    struct slot *s = &l->slots[place / batch % l->config.ahead];
    uint32_t index = l->order[place];
    uint64_t random = nn_mix64(nn_mix64(l->config.seed, l->epoch), index);
    struct co_err err = {0};

    if (in_batch == 0) {
        s->left = l->n - place < batch ? l->n - place : batch;
    }
    l->busy++;
    (void)pthread_mutex_unlock(&l->lock);
    int rc = sample_make(
        l, index, random, s->images + in_batch * pixels_of(l), &s->labels[in_batch], &err);
    (void)pthread_mutex_lock(&l->lock);
    l->busy--;
    s->left--;
    if (rc < 0 && l->err.code == 0) {
        l->err = err;
    }
    if (s->left == 0 || rc < 0 || l->busy == 0) {
        (void)pthread_cond_broadcast(&l->filled);
    }
}

static void *thread_run(void *arg) {
    struct rn_loader *l = arg;

    (void)pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        if (place_free(l)) {
            place_make(l);
        } else {
            /* no deadline: until the caller takes a batch, or ends the loader */
            (void)pthread_cond_wait(&l->room, &l->lock);
        }
    }
    (void)pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- the caller's side ----------------------------------------------------------------------- */

void rn_loader_start(
    struct rn_loader *l, const uint32_t *order, size_t n, size_t first, uint32_t epoch) {
    (void)pthread_mutex_lock(&l->lock);
    l->next = l->n; /* threads take no more places of the old order */
    while (l->busy) {
        /* no deadline: the threads read and decode files, and wait for nobody */
        (void)pthread_cond_wait(&l->filled, &l->lock);
    }
    l->order = co_xrealloc(l->order, n + 1, sizeof(*l->order));
    memcpy(l->order, order, n * sizeof(*order));
    l->n = n;
    l->next = first;
    l->taken = first / l->config.batch;
    l->epoch = epoch;
    (void)pthread_cond_broadcast(&l->room);
    (void)pthread_mutex_unlock(&l->lock);
}

/* Is the next batch complete? */
static bool batch_filled(const struct rn_loader *l, const struct slot *s, size_t n) {
    return l->next >= l->taken * l->config.batch + n && s->left == 0;
}

int rn_loader_next(struct rn_loader *l, float *ret_images, uint32_t *ret_labels, size_t *ret_n,
    struct co_err *err) {
    (void)pthread_mutex_lock(&l->lock);
    size_t first = l->taken * l->config.batch, left = l->n > first ? l->n - first : 0;
    size_t n = left < l->config.batch ? left : l->config.batch;
    struct slot *s = &l->slots[l->taken % l->config.ahead];
    while (n && l->err.code == 0 && !batch_filled(l, s, n)) {
        /* no deadline: as in rn_loader_start */
        (void)pthread_cond_wait(&l->filled, &l->lock);
    }
    int rc = l->err.code;
    if (rc < 0 && err) {
        *err = l->err;
    }
    (void)pthread_mutex_unlock(&l->lock);
    if (rc < 0) {
        return rc;
    }
    memcpy(ret_images, s->images, n * pixels_of(l) * sizeof(*ret_images));
    memcpy(ret_labels, s->labels, n * sizeof(*ret_labels));
    *ret_n = n;
    (void)pthread_mutex_lock(&l->lock);
    l->taken += n > 0;
    (void)pthread_cond_broadcast(&l->room);
    (void)pthread_mutex_unlock(&l->lock);
    return 0;
}

size_t rn_loader_bad(struct rn_loader *l) {
    (void)pthread_mutex_lock(&l->lock);
    size_t n = l->n_bad;
    (void)pthread_mutex_unlock(&l->lock);
    return n;
}

static int slots_init(struct rn_loader *l, struct co_err *err) {
    size_t batch = l->config.batch;
    int rc = 0;

    l->slots = co_xcalloc(l->config.ahead, sizeof(*l->slots));
    for (size_t i = 0; rc == 0 && i < l->config.ahead; i++) {
        void *memory = NULL;

        rc =
            co_try_alloc(batch, pixels_of(l) * sizeof(float), SIZE_MAX / 2, "images", &memory, err);
        l->slots[i].images = memory;
        l->slots[i].labels = co_xcalloc(batch, sizeof(uint32_t));
    }
    return rc;
}

int rn_loader_new(
    const struct rn_loader_config *config, struct rn_loader **ret_loader, struct co_err *err) {
    CO_CLEANUP(rn_loader_freep) struct rn_loader *l = co_xcalloc(1, sizeof(*l));

    l->config = *config;
    (void)pthread_mutex_init(&l->lock, NULL);
    (void)pthread_cond_init(&l->room, NULL);
    (void)pthread_cond_init(&l->filled, NULL);
    l->bad = co_xcalloc(config->flowers->n, sizeof(*l->bad));
    l->threads = co_xcalloc(config->threads, sizeof(*l->threads));
    CO_TRY(slots_init(l, err));
    while (l->n_threads < config->threads) {
        int error = pthread_create(&l->threads[l->n_threads], NULL, thread_run, l);

        if (error) {
            return co_err_errno(err, error, "a thread to decode images");
        }
        l->n_threads++;
    }
    *ret_loader = co_steal_ptr(l);
    return 0;
}

void rn_loader_free(struct rn_loader *l) {
    if (!l) {
        return;
    }
    (void)pthread_mutex_lock(&l->lock);
    l->stop = true;
    (void)pthread_cond_broadcast(&l->room);
    (void)pthread_mutex_unlock(&l->lock);
    for (size_t i = 0; i < l->n_threads; i++) {
        /* no deadline: each ends after its image */
        (void)pthread_join(l->threads[i], NULL);
    }
    for (size_t i = 0; l->slots && i < l->config.ahead; i++) {
        free(l->slots[i].images);
        free(l->slots[i].labels);
    }
    (void)pthread_cond_destroy(&l->filled);
    (void)pthread_cond_destroy(&l->room);
    (void)pthread_mutex_destroy(&l->lock);
    free(l->slots);
    free(l->threads);
    free(l->order);
    free(l->bad);
    free(l);
}
