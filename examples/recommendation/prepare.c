/* Splits ratings into files for training and testing, and generates them if there are none. */
#include "examples/recommendation/prepare.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buf.h"
#include "common/mem.h"
#include "examples/data/lines.h"
#include "examples/nn/rng.h"
#include "examples/recommendation/ml.h"
#include "runtime/rt.h"

enum { TEXT_MAX = 1 << 30, GENRES = 8, JOBS = 21, TEST_ONE_IN = 10, AGES = 7 };

CO_DEFINE_CLEANUP(struct rt_input *, rt_input_close)

static const char *const genres[GENRES] = {
    "Action", "Comedy", "Drama", "Horror", "Musical", "Romance", "Sci-Fi", "War"};
static const unsigned ages[AGES] = {1, 18, 25, 35, 45, 50, 56};

static int file_write(
    const char *dir, const char *name, const struct co_buf *text, struct co_err *err) {
    CO_AUTOFREE char *path = co_xasprintf("%s/%s", dir, name);

    return co_file_write(path, text->data ? text->data : "", text->len, 0644, err);
}

static int folder_make(const char *path, struct co_err *err) {
    if (mkdir(path, 0755) < 0 && errno != EEXIST) {
        return co_err_errno(err, errno, "\"%s\"", path);
    }
    return 0;
}

/* ---- generated data ------------------------------------------------------------------------- */

/* A random number below `below` for thing i; always the same for the same arguments. */
static uint64_t draw(const struct rc_prepare *p, uint64_t what, uint64_t i, uint64_t below) {
    return nn_mix64(nn_mix64(p->seed, what), i) % below;
}

enum { GENDER, AGE, JOB, FIRST_GENRE, SECOND_GENRE, TASTE, USER, MOVIE, LUCK };

static int users_make(const struct rc_prepare *p, struct co_buf *text, struct co_err *err) {
    for (uint64_t i = 1; i <= p->users; i++) {
        CO_TRY(co_buf_addf(text, err, "%u::%c::%u::%u::%05u\n", (unsigned)i,
            draw(p, GENDER, i, 2) ? 'F' : 'M', ages[draw(p, AGE, i, AGES)],
            (unsigned)draw(p, JOB, i, JOBS), (unsigned)draw(p, JOB, i, 99999)));
    }
    return 0;
}

static int movies_make(const struct rc_prepare *p, struct co_buf *text, struct co_err *err) {
    int rc = 0;

    for (uint64_t i = 1; rc == 0 && i <= p->movies; i++) {
        uint64_t a = draw(p, FIRST_GENRE, i, GENRES), b = draw(p, SECOND_GENRE, i, GENRES);

        rc = co_buf_addf(text, err, "%u::The %s of Film %u (%u)::%s", (unsigned)i, genres[a],
            (unsigned)i, 1930 + (unsigned)(i % 70), genres[a]);
        if (rc == 0 && b != a) {
            rc = co_buf_addf(text, err, "|%s", genres[b]);
        }
        rc = rc == 0 ? co_buf_adds(text, "\n", err) : rc;
    }
    return rc;
}

/* How much users of that gender and age like a genre, from -1 to 1. */
static double taste(const struct rc_prepare *p, uint64_t user, uint64_t genre) {
    uint64_t group = draw(p, GENDER, user, 2) * AGES + draw(p, AGE, user, AGES);

    return (double)draw(p, TASTE, group * GENRES + genre, 2001) / 1000.0 - 1.0;
}

static int ratings_make(const struct rc_prepare *p, struct co_buf *text, struct co_err *err) {
    for (uint64_t i = 0; i < p->ratings; i++) {
        uint64_t user = 1 + draw(p, USER, i, p->users), movie = 1 + draw(p, MOVIE, i, p->movies);
        double likes = taste(p, user, draw(p, FIRST_GENRE, movie, GENRES)) +
                       taste(p, user, draw(p, SECOND_GENRE, movie, GENRES));
        double luck = (double)draw(p, LUCK, i, 1001) / 1000.0 - 0.5;
        double stars = fmin(fmax(round(3.0 + 1.3 * likes + luck), 1.0), 5.0);

        CO_TRY(co_buf_addf(text, err, "%u::%u::%.0f::%u\n", (unsigned)user, (unsigned)movie, stars,
            978300000U + (unsigned)i));
    }
    return 0;
}

static int library_make(const struct rc_prepare *p, const char *dir, struct co_err *err) {
    static const struct {
        const char *name;
        int (*make)(const struct rc_prepare *p, struct co_buf *text, struct co_err *err);
    } files[] = {
        {"users.dat", users_make}, {"movies.dat", movies_make}, {"ratings.dat", ratings_make}};
    int rc = folder_make(dir, err);

    rc = rc == 0 ? da_mark(dir, true, err) : rc;
    for (size_t i = 0; rc == 0 && i < CO_ARRAY_LEN(files); i++) {
        CO_AUTOBUF struct co_buf text = CO_BUF(TEXT_MAX);

        rc = files[i].make(p, &text, err);
        rc = rc == 0 ? file_write(dir, files[i].name, &text, err) : rc;
    }
    return rc;
}

/* ---- files for training and test ------------------------------------------------------------- */

/* Puts about every tenth rating into the test file, and the others into the training files in turn.
 */
static int ratings_split(
    const struct rc_prepare *p, const char *dir, struct co_buf *texts, struct co_err *err) {
    CO_CLEANUP(rt_input_closep) struct rt_input *input = NULL;
    struct da_text line;
    uint64_t i = 0, trained = 0, files = p->split > 0 ? p->split : 1;
    int rc = rc_file_open(dir, "ratings.dat", &input, err);

    while (rc == 0 && (rc = da_line_next(input, &line, err)) == 0 && line.at) {
        struct rc_rating rating;
        bool tests = nn_mix64(p->seed, i++) % TEST_ONE_IN == 0;
        struct co_buf *text = &texts[tests ? p->split : trained++ % files];

        /* Training would take no other. */
        rc = rc_rating_parse(NULL, line, rt_input_where(input), &rating, err);
        rc = rc == 0 ? co_buf_add(text, line.at, line.len, err) : rc;
        rc = rc == 0 ? co_buf_adds(text, "\n", err) : rc;
    }
    return rc == 0 && trained == 0
               ? co_err_set(err, CO_INVALID,
                     "no usable line in \"%s/ratings.dat\": nothing to train on", dir)
               : rc;
}

static int files_write(const struct rc_prepare *p, const struct co_buf *texts, struct co_err *err) {
    CO_AUTOBUF struct co_buf list = CO_BUF(TEXT_MAX);
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < p->split; i++) {
        CO_AUTOFREE char *name = co_xasprintf("ratings.dat.train-%05u", i);

        rc = file_write(p->out, name, &texts[i], err);
        rc = rc == 0 ? co_buf_addf(&list, err, "%s\n", name) : rc;
    }
    rc = rc == 0 ? file_write(p->out, "train.list", &list, err) : rc;
    co_buf_clear(&list);
    rc = rc == 0 ? file_write(p->out, "ratings.dat.test", &texts[p->split], err) : rc;
    rc = rc == 0 ? co_buf_adds(&list, "ratings.dat.test\n", err) : rc;
    return rc == 0 ? file_write(p->out, "test.list", &list, err) : rc;
}

int rc_prepare(const struct rc_prepare *p, struct co_err *err) {
    CO_AUTOFREE char *own = co_xasprintf("%s/ml-1m", p->out);
    CO_AUTOFREE struct co_buf *texts = co_xcalloc((size_t)p->split + 1, sizeof(*texts));
    int rc = p->split > 0 ? folder_make(p->out, err)
                          : co_err_set(err, CO_INVALID, "0 files of training data");

    const bool generate = p->ml[0] == '\0' && !da_is_users(own, "ratings.dat");

    if (rc == 0 && generate &&
        (da_is_users(p->out, "train.list") || da_is_users(own, "users.dat") ||
            da_is_users(own, "movies.dat"))) {
        rc = co_err_set(err, CO_EXISTS,
            "\"%s\" has data that was not generated, and keeps it: --ml names ratings, --out "
            "another directory",
            p->out);
    }
    rc = rc == 0 && generate ? da_mark(p->out, true, err) : rc;
    if (rc == 0 && generate) {
        rc = library_make(p, own, err);
    }
    for (uint32_t i = 0; i <= p->split; i++) {
        texts[i] = (struct co_buf)CO_BUF(TEXT_MAX);
    }
    if (rc == 0) {
        rc = ratings_split(p, p->ml[0] != '\0' ? p->ml : own, texts, err);
    }
    rc = rc == 0 && !generate ? da_mark(p->out, false, err) : rc; /* once it has been read */
    rc = rc == 0 ? files_write(p, texts, err) : rc;
    for (uint32_t i = 0; i <= p->split; i++) {
        co_buf_done(&texts[i]);
    }
    return rc;
}
