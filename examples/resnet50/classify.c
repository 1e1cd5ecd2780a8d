/* Classifies pictures, one at a time, as the test does.  See classify.h. */
#include "examples/resnet50/classify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/json/json.h"
#include "examples/data/lines.h"
#include "examples/resnet50/ckpt.h"
#include "examples/resnet50/dnn.h"
#include "examples/resnet50/image.h"
#include "examples/resnet50/plan.h"
#include "examples/resnet50/team.h"

struct likely {
    uint32_t class;
    double probability;
};

static int plan_open(const struct rn_options *o, struct rn_plan **ret, struct co_err *err) {
    const struct rn_net_config config = {.depth = (int)o->depth,
        .batch = 1,
        .image = (uint32_t)o->image_size,
        .classes = (uint32_t)o->class_dim,
        .width = (uint32_t)o->width};
    CO_CLEANUP(rn_plan_freep) struct rn_plan *plan = NULL;
    struct rn_progress progress;

    if (o->threads > 0) {
        rn_team_set((size_t)o->threads);
    }
    CO_TRY(rn_plan_new(&config, rn_type_of(o->precision), RN_ORDER_FAST, &plan, err));
    CO_AUTOFREE float *velocity = co_xcalloc(rn_plan_storage(plan), sizeof(*velocity));
    const struct rn_ckpt c = {plan, velocity};
    CO_TRY(rn_ckpt_load(o->load, &c, &progress, err));
    *ret = co_steal_ptr(plan);
    return 0;
}

static int picture_read(
    const struct rn_options *o, const char *path, float *ret, struct co_err *err) {
    CO_AUTOBUF struct co_buf file = CO_BUF(RN_JPEG_BYTES_MAX);
    CO_CLEANUP(rn_image_done) struct rn_image image = {0};
    const struct rn_view view = {.size = (uint32_t)o->image_size};

    CO_TRY(co_file_read(path, RN_JPEG_BYTES_MAX, &file, err));
    if (rn_jpeg_decode(file.data ? file.data : "", file.len, &image, err) < 0) {
        return co_err_wrap(err, "\"%.200s\"", path);
    }
    rn_image_prepare(&image, &view, ret);
    return 0;
}

/* The n largest of softmax(logits), the largest first; n is at most classes. */
static void likeliest(const float *logits, size_t classes, size_t n, struct likely *ret) {
    double sum = 0.0;
    float top = -INFINITY; /* fmax here is an internal error of GCC 12 for aarch64 */

    for (size_t c = 0; c < classes; c++) {
        top = logits[c] > top ? logits[c] : top;
    }
    for (size_t i = 0; i < n; i++) {
        ret[i].probability = -1.0;
    }
    for (size_t c = 0; c < classes; c++) {
        const struct likely here = {(uint32_t)c, exp((double)logits[c] - (double)top)};
        size_t at = n;

        sum += here.probability;
        for (; at > 0 && here.probability > ret[at - 1].probability; at--) {
            if (at < n) {
                ret[at] = ret[at - 1];
            }
        }
        if (at < n) {
            ret[at] = here;
        }
    }
    for (size_t i = 0; i < n; i++) {
        ret[i].probability /= sum;
    }
}

static void print_classes(
    const struct rn_options *o, const char *path, const struct likely *l, size_t n) {
    CO_AUTOJSON json_t *top = json_object(), *list = json_array();

    for (size_t i = 0; i < n; i++) {
        json_t *j = json_object();
        co_json_set(j, "class", json_integer(l[i].class));
        co_json_set(j, "probability", json_real(l[i].probability));
        co_json_append(list, j);
        if (!o->json) {
            (void)printf(
                "%s%s class %u %.3f", i ? "," : path, i ? "" : ":", l[i].class, l[i].probability);
        }
    }
    if (o->json) {
        co_json_set(top, "picture", co_json_string(path));
        co_json_set(top, "classes", json_incref(list));
        CO_AUTOFREE char *text = co_json_dump(top);
        (void)fputs(text, stdout);
    }
    (void)puts("");
}

int rn_classify(const struct rn_options *o, char *const *pictures, size_t n, struct co_err *err) {
    CO_CLEANUP(rn_plan_freep) struct rn_plan *plan = NULL;
    const size_t classes = (size_t)o->class_dim;
    const size_t k = (size_t)o->top < classes ? (size_t)o->top : classes;
    CO_AUTOFREE struct likely *likely = co_xcalloc(k, sizeof(*likely));

    if (n == 0) {
        return co_err_set(err, CO_INVALID, "classify needs pictures: JPEG files");
    }
    CO_TRY(plan_open(o, &plan, err));
    for (size_t i = 0; i < n; i++) {
        CO_TRY(picture_read(o, pictures[i], rn_plan_images(plan), err));
        CO_TRY(rn_plan_forward(plan, false, err));
        likeliest(rn_plan_logits(plan), classes, k, likely);
        print_classes(o, pictures[i], likely, k);
        CO_TRY(da_answer_end(err));
    }
    return 0;
}
