/* Prints a training's progress lines, by default at most twice a second. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "common/clock.h"
#include "runtime/rt.h"

enum { EVERY_MS = 500 };

static void print(struct rt_progress *p, int64_t now) {
    double seconds = (double)(now - p->printed_ms) / 1000.0;

    if (p->samples == 0) {
        return;
    }
    double loss = p->loss / (double)p->samples;
    double rate = (double)p->samples / (seconds > 0.001 ? seconds : 0.001);
    (void)printf("TRAIN ---> pass: %" PRIu64 " loss: %.6f", p->pass, loss);
    if (p->more) {
        (void)printf("%s%s examples/s: %.0f\n", p->fields[0] != '\0' ? " " : "", p->fields, rate);
    } else {
        (void)printf("\n\n");
    }
    (void)fflush(stdout);
    if (p->job) {
        rt_report(p->job, p->steps, "loss", loss);
        rt_report(p->job, p->steps, "examples_per_second", rate);
    }
    p->printed_ms = now;
    p->samples = 0;
    p->loss = 0.0;
}

void rt_progress_begin(struct rt_progress *p, uint64_t pass) {
    p->pass = pass;
    p->samples = 0;
    p->loss = 0.0;
    p->printed_ms = co_now_ms();
    p->answered = 0;
}

bool rt_progress_due(struct rt_progress *p) {
    bool due = co_now_ms() - p->printed_ms >= (p->every_ms > 0 ? p->every_ms : EVERY_MS);
    p->answered = due ? 2 : 1;
    return due;
}

void rt_progress_add(struct rt_progress *p, size_t n, double loss) {
    p->samples += n;
    p->steps++;
    p->loss += loss * (double)n;
    bool due = p->answered ? p->answered == 2 : rt_progress_due(p);
    p->answered = 0;
    if (due) {
        print(p, co_now_ms());
    }
}

void rt_progress_end(struct rt_progress *p) {
    print(p, co_now_ms());
}
