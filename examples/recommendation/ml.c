/* Parses MovieLens' files.  Checks every field; errors name the line. */
#include "examples/recommendation/ml.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/parse.h"
#include "examples/data/lines.h"
#include "runtime/rt.h"

CO_DEFINE_CLEANUP(struct rt_input *, rt_input_close)

enum { FIELDS_MAX = 5, GROWS_BY = 4096 };
static const uint8_t ages[] = {1, 18, 25, 35, 45, 50, 56};

/* Splits line at each "::" into n fields; false: it has more or fewer. */
static bool fields_cut(char *line, size_t n, char *fields[FIELDS_MAX]) {
    for (size_t i = 0; i < n; i++) {
        char *end = strstr(line, "::");

        if ((end != NULL) != (i + 1 < n)) {
            return false;
        }
        fields[i] = line;
        if (end) {
            *end = '\0';
            line = end + 2;
        }
    }
    return true;
}

static bool id_parse(const char *text, int64_t max, int64_t *ret) {
    return co_parse_i64("", text, 0, max, ret, NULL) == 0;
}

static uint64_t hash_of(const char *text, size_t len) {
    uint64_t hash = 0xcbf29ce484222325U;

    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ (uint8_t)tolower((unsigned char)text[i])) * 0x100000001b3U;
    }
    return hash;
}

void rc_library_done(struct rc_library *l) {
    free(l->users);
    free(l->movies);
    free(l->hashes);
    memset(l, 0, sizeof(*l));
}

/* ---- lines of the two files ----------------------------------------------------------------- */

/* Parses a line.  Returns NULL, or what was expected. */
typedef const char *line_fn(struct rc_library *l, char *line);

static const char *user_take(struct rc_library *l, char *line) {
    char *f[FIELDS_MAX];
    int64_t id, age, job;
    uint8_t place = 0;

    if (!fields_cut(line, 5, f)) {
        return "UserID::Gender::Age::Occupation::Zip-code";
    }
    if (!id_parse(f[0], RC_ID_MAX - 1, &id) || !id_parse(f[2], 255, &age) ||
        !id_parse(f[3], 255, &job)) {
        return "numbers as user, age and occupation";
    }
    while (place < sizeof(ages) && ages[place] != age) {
        place++;
    }
    if (place == sizeof(ages) || (strcmp(f[1], "M") != 0 && strcmp(f[1], "F") != 0)) {
        return "M or F, and an age of 1, 18, 25, 35, 45, 50 or 56";
    }
    if ((size_t)id >= l->n_users) {
        size_t n = ((size_t)id / GROWS_BY + 1) * GROWS_BY;

        l->users = co_xrealloc(l->users, n, sizeof(*l->users));
        memset(l->users + l->n_users, 0, (n - l->n_users) * sizeof(*l->users));
        l->n_users = n;
    }
    l->users[id] =
        (struct rc_user){.known = 1, .gender = f[1][0] == 'F', .age = place, .job = (uint8_t)job};
    return NULL;
}

/* Adds the hashes of up to max words of text; returns how many. */
static uint8_t words_add(struct rc_library *l, char *text, const char *between, uint8_t max) {
    char *rest = NULL;
    uint8_t n = 0;

    for (char *w = strtok_r(text, between, &rest); w && n < max;
         w = strtok_r(NULL, between, &rest)) {
        if (l->n_hashes % GROWS_BY == 0) {
            l->hashes = co_xrealloc(l->hashes, l->n_hashes + GROWS_BY, sizeof(*l->hashes));
        }
        l->hashes[l->n_hashes++] = hash_of(w, strlen(w));
        n++;
    }
    return n;
}

static const char *movie_take(struct rc_library *l, char *line) {
    char *f[FIELDS_MAX];
    int64_t id;

    if (!fields_cut(line, 3, f) || !id_parse(f[0], RC_ID_MAX - 1, &id)) {
        return "MovieID::Title (Year)::Genre|Genre";
    }
    char *year = strrchr(f[1], '(');
    if (!year) {
        return "a title that ends with (Year)";
    }
    *year = '\0';
    if ((size_t)id >= l->n_movies) {
        size_t n = ((size_t)id / GROWS_BY + 1) * GROWS_BY;

        l->movies = co_xrealloc(l->movies, n, sizeof(*l->movies));
        memset(l->movies + l->n_movies, 0, (n - l->n_movies) * sizeof(*l->movies));
        l->n_movies = n;
    }
    struct rc_movie m = {.known = 1, .at = (uint32_t)l->n_hashes};
    m.n_genres = words_add(l, f[2], "|", RC_GENRES_MAX);
    m.n_words = words_add(l, f[1], " \t", RC_WORDS_MAX);
    l->movies[id] = m;
    return NULL;
}

int rc_file_open(
    const char *dir, const char *name, struct rt_input **ret_input, struct co_err *err) {
    CO_AUTOFREE char *path = da_file_find(dir, name);
    int rc = rt_input_open(path, NULL, ret_input, err);

    return rc == CO_NOTFOUND
               ? co_err_wrap(err, "expected users.dat, movies.dat and ratings.dat of MovieLens 1M, "
                                  "or the same with .gz behind their names")
               : rc;
}

static int file_read(
    struct rc_library *l, const char *dir, const char *name, line_fn *take, struct co_err *err) {
    CO_CLEANUP(rt_input_closep) struct rt_input *input = NULL;
    struct da_text line;
    size_t n = 0;
    int rc = rc_file_open(dir, name, &input, err);

    for (; rc == 0 && (rc = da_line_next(input, &line, err)) == 0 && line.at; n++) {
        CO_AUTOFREE char *copy = co_xstrndup(line.at, line.len);
        const char *expected = take(l, copy);

        if (expected) {
            rc = co_err_set(err, CO_INVALID, "%s: expected %s", rt_input_where(input), expected);
        }
    }
    return rc == 0 && n == 0 ? co_err_set(err, CO_INVALID, "no usable line in \"%s/%s\"", dir, name)
                             : rc;
}

int rc_library_read(const char *dir, struct rc_library *ret_library, struct co_err *err) {
    CO_CLEANUP(rc_library_done) struct rc_library l = {0};

    CO_TRY(file_read(&l, dir, "users.dat", user_take, err));
    CO_TRY(file_read(&l, dir, "movies.dat", movie_take, err));
    *ret_library = l;
    memset(&l, 0, sizeof(l));
    return 0;
}

int rc_rating_parse(const struct rc_library *l, struct da_text line, const char *where,
    struct rc_rating *ret_rating, struct co_err *err) {
    CO_AUTOFREE char *copy = co_xstrndup(line.at, line.len);
    char *f[FIELDS_MAX];
    int64_t user, movie;
    double stars;

    if (!fields_cut(copy, 4, f) || !id_parse(f[0], RC_ID_MAX - 1, &user) ||
        !id_parse(f[1], RC_ID_MAX - 1, &movie) ||
        co_parse_f64("", f[2], 0.0, 5.0, &stars, NULL) < 0) {
        return co_err_set(err, CO_INVALID,
            "%s: expected UserID::MovieID::Rating::Timestamp, a rating up to 5", where);
    }
    if (l && ((size_t)user >= l->n_users || !l->users[user].known)) {
        return co_err_set(err, CO_INVALID, "%s: users.dat has no user %s", where, f[0]);
    }
    if (l && ((size_t)movie >= l->n_movies || !l->movies[movie].known)) {
        return co_err_set(err, CO_INVALID, "%s: movies.dat has no movie %s", where, f[1]);
    }
    *ret_rating = (struct rc_rating){(uint32_t)user, (uint32_t)movie, (float)stars};
    return 0;
}
