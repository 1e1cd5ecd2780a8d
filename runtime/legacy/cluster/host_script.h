/* What is done on the hosts of a `cluster_train` job, as text: pure.
 *
 * A host runs one shell script, in the one ssh session that lives as long as the job.  It starts
 * the server, reports on its output what happens, and reads commands on its input:
 *
 *     prints  @connected          the script runs
 *             @ready              the server listens
 *             @server CODE        the server has ended
 *             @train CODE         the trainer has ended
 *             @| LINE, then @.    the last lines of a log, as asked for
 *     reads   go                  start the trainer
 *             tail NAME COUNT     print the last lines of log/NAME.log
 *             stop, or the end    stop everything and leave
 *
 * So nothing is found by its name, nothing is left behind when the launcher or the connection
 * dies, and no trainer starts before all servers listen. */
#pragma once

#include <time.h>

#include "runtime/legacy/cluster/conf.h"

struct cluster_options {
    const char *workspace;    /* on every host already; or */
    const char *package;      /* here, to be copied to all of them; the other is NULL */
    const char *ssh;          /* command, words apart by blanks */
    const char *paddle;       /* program on the hosts */
    char *const *train_flags; /* for `paddle train` */
    size_t n_train_flags;
    int64_t connect_ms; /* for a host that ssh does not reach yet */
    int64_t ready_ms;   /* for all servers to listen, once all hosts are reached */
    int64_t grace_ms;   /* for servers to end by themselves once training is over */
    int64_t stop_ms;    /* SIGTERM -> SIGKILL on the hosts */
};

/* The job's directory on every host: the workspace, or ROOT_DIR/JOB<YYYYmmddHHMMSS>. */
char *cluster_dir(
    const struct cluster_conf *c, const struct cluster_options *o, const struct tm *now);
/* Scripts; the caller frees.  addresses: of all hosts, joined by commas. */
char *cluster_receive_script(const char *dir);
char *cluster_run_script(const struct cluster_conf *c, const struct cluster_options *o,
    const char *dir, size_t host, const char *addresses);
/* argv of ssh for a host: `ssh` split into words, then options, user, port and the script. */
char **cluster_ssh(
    const struct cluster_options *o, const struct cluster_host *host, const char *script);
void cluster_words_free(char **words);

/* Text as one word for a POSIX shell. */
char *cluster_shell_quote(const char *text);
