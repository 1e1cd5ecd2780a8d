/* The loss of skip-gram pairs and its gradients, and the sampler of negative words. */
#include "examples/word2vec/pairs.h"

#include <math.h>
#include <stdbool.h>

void wv_sampler_init(
    struct wv_sampler *s, const struct wv_dict *d, uint64_t seed, uint64_t stream) {
    double sum = 0.0;

    s->n = d->n;
    s->below = co_xcalloc(d->n, sizeof(*s->below));
    for (size_t i = 0; i < d->n; i++) {
        sum += pow((double)d->words[i].count, 0.75);
        s->below[i] = sum;
    }
    nn_rng_init(&s->rng, seed, stream);
}

void wv_sampler_done(struct wv_sampler *s) {
    free(s->below);
    s->below = NULL;
}

uint64_t wv_sampler_draw(struct wv_sampler *s) {
    double u = nn_rng_double(&s->rng) * s->below[s->n - 1];
    size_t low = 0, high = s->n - 1;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (s->below[middle] > u) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* log(1 + exp(x)) */
static double softplus(double x) {
    return x > 0.0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

double wv_pairs_loss(const struct wv_pairs *p, float *grads, float *other_grads) {
    size_t e = p->embed;
    double loss = 0.0;
    size_t pairs = p->n * p->others / p->each;

    for (size_t i = 0; i < p->n * p->others; i++) {
        size_t v_at = p->middle[i / p->others] * e, u_at = p->other[i] * (e + 1);
        const float *v = p->rows + v_at, *u = p->other_rows + u_at;
        bool real = i % p->each == 0;
        float s = u[e];

        for (size_t k = 0; k < e; k++) {
            s += v[k] * u[k];
        }
        loss += softplus(real ? -(double)s : (double)s);
        if (!grads) {
            continue;
        }
        float ds = (1.0F / (1.0F + expf(-s)) - (real ? 1.0F : 0.0F)) / (float)pairs;
        for (size_t k = 0; k < e; k++) {
            grads[v_at + k] += ds * u[k];
            other_grads[u_at + k] += ds * v[k];
        }
        other_grads[u_at + e] += ds;
    }
    return loss / (double)pairs;
}
