/* Where the numbers that a program reports go: to the metrics page (PADDLERT_METRICS), which also
 * has the library's own, and to a TensorBoard file (PADDLERT_TENSORBOARD).  If one of them cannot
 * be opened or written, that is logged, and the job continues without it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct psc_reporter; /* any thread */

/* Opens nothing yet, because the process may still fork. */
struct psc_reporter *psc_reporter_new(void);
void psc_reporter_free(struct psc_reporter *r); /* NULL allowed */
/* The first call opens both.  role: "server" or "worker"; with the index it names the directory. */
void psc_reporter_report(struct psc_reporter *r, const char *role, uint32_t index, uint64_t step,
    const char *name, double value);

/* Serves metrics if the environment asks for it.  True: the caller must call meter_close. */
bool psc_report_metrics(void);
