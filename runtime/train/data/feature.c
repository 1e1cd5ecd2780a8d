/* Makes features of numbers and texts. */
#include "runtime/train/data/feature.h"

/* The smallest value and the range of each number, as the authors of the model fixed them. */
static const float minimum[DA_CRITEO_NUMBERS] = {0, -3};
static const float range[DA_CRITEO_NUMBERS] = {
    20, 603, 100, 50, 64000, 500, 100, 50, 500, 10, 10, 10, 50};

static uint64_t hash_fnv1a(uint64_t hash, const char *bytes, size_t len) {
    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ (uint8_t)bytes[i]) * 0x100000001b3U;
    }
    return hash;
}

uint64_t da_feature_id(unsigned column, const char *value, size_t len, uint64_t vocabulary) {
    char digits[4];
    size_t n = 0;

    do {
        digits[sizeof(digits) - ++n] = (char)('0' + (char)(column % 10U));
        column /= 10U;
    } while (column && n < sizeof(digits));
    uint64_t hash = hash_fnv1a(0xcbf29ce484222325U, digits + sizeof(digits) - n, n);
    hash = hash_fnv1a(hash, value, len);
    return vocabulary ? hash % vocabulary : hash;
}

float da_feature_scale(size_t i, double x) {
    return (float)((x - (double)minimum[i]) / (double)range[i]);
}
