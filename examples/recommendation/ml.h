/* Parses the files of MovieLens 1M, with fields separated by "::":
 *
 *     users.dat    UserID::Gender::Age::Occupation::Zip-code
 *     movies.dat   MovieID::Title (Year)::Genre|Genre
 *     ratings      UserID::MovieID::Rating::Timestamp
 *
 * Values become numbers: gender M 0 and F 1; an age its index in 1, 18, 25, 35, 45, 50, 56; a
 * genre, and a lower-case word of the title without the year, a fixed hash of its bytes (FNV-1a).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "runtime/rt.h"
#include "runtime/train/data/text.h"

enum { RC_ID_MAX = 1 << 24, RC_WORDS_MAX = 32, RC_GENRES_MAX = 32 };

/* The fields whose values have embedding rows.  Fields up to RC_TITLE have long rows, the others
 * short ones. */
enum rc_field { RC_USER, RC_MOVIE, RC_GENRE, RC_TITLE, RC_GENDER, RC_AGE, RC_JOB, RC_FIELDS };

struct rc_user {
    uint8_t known, gender, age, job;
};

struct rc_movie {
    uint8_t known, n_genres, n_words;
    uint32_t at; /* index in hashes of its genres, then its words */
};

/* Immutable once read. */
struct rc_library {
    struct rc_user *users;   /* [n_users] by id */
    struct rc_movie *movies; /* [n_movies] by id */
    size_t n_users, n_movies;
    uint64_t *hashes;
    size_t n_hashes;
};

/* Reads dir/users.dat and dir/movies.dat.  CO_INVALID names file, line and what was expected; more
 * than RC_GENRES_MAX genres or RC_WORDS_MAX words are cut off. */
CO_MUST_CHECK int rc_library_read(
    const char *dir, struct rc_library *ret_library, struct co_err *err);
void rc_library_done(struct rc_library *l);

struct rc_rating {
    uint32_t user, movie;
    float stars; /* 1 .. 5 */
};

/* Opens one of MovieLens' files in dir, packed by gzip or not.  CO_NOTFOUND says which there should
 * be. */
CO_MUST_CHECK int rc_file_open(
    const char *dir, const char *name, struct rt_input **ret_input, struct co_err *err);
/* Parses a line of ratings.  where: names the line in messages.  CO_INVALID also for a user or a
 * movie that the library (NULL: none is asked) does not have. */
CO_MUST_CHECK int rc_rating_parse(const struct rc_library *l, struct da_text line,
    const char *where, struct rc_rating *ret_rating, struct co_err *err);
