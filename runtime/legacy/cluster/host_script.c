/* Pure: command lines and shell scripts for each host of a job. */
#include "runtime/legacy/cluster/host_script.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"

enum { SCRIPT_MAX = 256 << 10, WORDS_MAX = 64 };

/* Users of the old scripts look for processes by this word; we do not need it. */
#define COMMENT "paddle_process_by_paddle"

char *cluster_shell_quote(const char *text) {
    size_t n = strlen(text), quotes = 0;
    for (const char *p = text; *p; p++) {
        quotes += *p == '\'';
    }
    char *ret = co_xmalloc(n + quotes * 3 + 3);
    char *at = ret;
    *at++ = '\'';
    for (const char *p = text; *p; p++) {
        if (*p == '\'') {
            memcpy(at, "'\\''", 4);
            at += 4;
        } else {
            *at++ = *p;
        }
    }
    *at++ = '\'';
    *at = '\0';
    return ret;
}

char *cluster_dir(
    const struct cluster_conf *c, const struct cluster_options *o, const struct tm *now) {
    char stamp[32];
    if (o->workspace) {
        return co_xstrdup(o->workspace);
    }
    (void)strftime(stamp, sizeof(stamp), "JOB%Y%m%d%H%M%S", now);
    size_t n = strlen(c->root_dir);
    return co_xasprintf("%s%s%s", c->root_dir, n && c->root_dir[n - 1] == '/' ? "" : "/", stamp);
}

char *cluster_receive_script(const char *dir) {
    CO_AUTOFREE char *d = cluster_shell_quote(dir);
    return co_xasprintf(
        "echo @connected; rm -fr %s && mkdir -p %s/log && tar -xf - -C %s", d, d, d);
}

static void add_words(struct co_buf *b, const char *fmt, ...) CO_PRINTF(2, 3);
static void add_words(struct co_buf *b, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *text = NULL;
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n >= 0) {
        (void)!co_buf_adds(b, text, NULL);
        free(text);
    }
}

static void add_flag(struct co_buf *b, const char *name, const char *value) {
    CO_AUTOFREE char *text = co_xasprintf("--%s=%s", name, value);
    CO_AUTOFREE char *word = cluster_shell_quote(text);
    add_words(b, " %s", word);
}

static void add_number(struct co_buf *b, const char *name, int64_t value) {
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRId64, value);
    add_flag(b, name, text);
}

/* Flags that servers and trainers both get. */
static void add_network(struct co_buf *b, const struct cluster_conf *c) {
    add_number(b, "num_gradient_servers", (int64_t)c->n_hosts);
    if (*c->nic) {
        add_flag(b, "nics", c->nic);
    }
    add_number(b, "port", c->port);
    add_number(b, "ports_num", c->ports_num);
}

/* Process groups are kept apart from the job's directory, which hosts may share. */
static const char head[] =
    "mkdir -p log && own=$(mktemp -d) || exit 97\n"
    "rm -f log/*\n"
    "GLOG_logtostderr=0 GLOG_log_dir=./log; export GLOG_logtostderr GLOG_log_dir\n"
    /* A group of its own, whose end is reported; known before anything can be asked to stop. */
    "run() {\n"
    "  name=$1; shift\n"
    /* To be read at the end, also when somebody has removed it. */
    "  true >\"log/$name.log\"\n" /* not `:`, nor exec alone: where they fail, a shell ends */
    "  case $name in\n"
    "  train) command exec 8<\"log/$name.log\" ;;\n"
    "  *) command exec 9<\"log/$name.log\" ;;\n"
    "  esac\n"
    "  ( setsid sh -c 'echo $$ >\"$0\"; exec \"$@\"' \"$own/$name\" \"$@\" "
    ">\"log/$name.log\" 2>&1 </dev/null 8<&- 9<&-\n"
    "    echo \"@$name $?\" ) &\n"
    "  while [ ! -s \"$own/$name\" ] && kill -0 $! 2>/dev/null; do sleep 0.05; done\n"
    "}\n"
    "signal() { for g in $groups; do kill -\"$1\" -\"$g\" && r=0; done 2>/dev/null; }\n"
    "each() { groups=$(cat \"$own\"/* 2>/dev/null); signal \"$1\"; }\n"
    "alive() { r=1; signal 0; return $r; }\n"
    "listens() { grep -q \":$1 [0-9A-F]*:0000 0A\" /proc/net/tcp /proc/net/tcp6 2>/dev/null; }\n";

static const char tail[] =
    "while read -r word name count; do\n"
    "  case $word in\n"
    "  go) train ;;\n"
    "  tail)\n"
    "    fd=9; [ \"$name\" = train ] && fd=8\n"
    "    tail -n \"$count\" \"/proc/$$/fd/$fd\" | sed 's/^/@| /'\n"
    "    [ -e \"log/$name.log\" ] || echo \"@| ($PWD/log/$name.log was removed while it ran)\"\n"
    "    echo '@.' ;;\n"
    "  pause) each STOP ;;\n"
    "  continue) each CONT ;;\n"
    "  stop) break ;;\n"
    "  esac\n"
    "done\n";

char *cluster_run_script(const struct cluster_conf *c, const struct cluster_options *o,
    const char *dir, size_t host, const char *addresses) {
    CO_AUTOBUF struct co_buf b = CO_BUF(SCRIPT_MAX);
    CO_AUTOFREE char *d = cluster_shell_quote(dir);
    CO_AUTOFREE char *paddle = cluster_shell_quote(o->paddle);
    int64_t last = c->port + c->ports_num + c->ports_num_for_sparse - 1;
    add_words(&b, "echo @connected\ncd %s || exit 97\n%s", d, head);
    add_words(&b, "echo %zu >nodefile\n", host);
    if (*c->ld_library_path) {
        CO_AUTOFREE char *path = cluster_shell_quote(c->ld_library_path);
        add_words(&b,
            "LD_LIBRARY_PATH=%s${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; export LD_LIBRARY_PATH\n",
            path);
    }
    add_words(&b, "train() {\n  run train %s train", paddle);
    add_network(&b, c);
    add_number(&b, "ports_num_for_sparse", c->ports_num_for_sparse);
    add_flag(&b, "comment", COMMENT);
    add_flag(&b, "pservers", addresses);
    for (size_t i = 0; i < o->n_train_flags; i++) {
        CO_AUTOFREE char *word = cluster_shell_quote(o->train_flags[i]);
        add_words(&b, " %s", word);
    }
    add_number(&b, "trainer_id", (int64_t)host);
    add_words(&b, "\n}\nrun server %s pserver", paddle);
    add_network(&b, c);
    add_number(&b, "ports_num_for_sparse", c->ports_num_for_sparse);
    add_flag(&b, "comment", COMMENT);
    add_words(&b,
        "\n( n=0; until listens %04X && listens %04X; do\n"
        "    n=$((n + 1)); [ $n -lt %" PRId64
        " ] && kill -0 $$ || exit; sleep 0.1\n  done; echo @ready ) &\n",
        (unsigned)c->port, (unsigned)last, o->ready_ms / 100);
    add_words(&b, "%s", tail);
    add_words(&b,
        "each TERM\n"
        "n=0; while alive && [ $n -lt %" PRId64 " ]; do n=$((n + 1)); sleep 0.1; done\n"
        "signal KILL\nrm -fr \"$own\"\n",
        o->stop_ms / 100);
    return co_buf_take(&b);
}

/* The least that makes ssh neither ask nor wait for ever, and say why it ended; what the user's own
 * options say first wins.  A host that is silent for a minute is lost: one that swaps, or whose
 * processor others have, is silent for many seconds. */
static const char *const ssh_options[] = {"-T", "-o", "BatchMode=yes", "-o", "LogLevel=INFO", "-o",
    "ConnectTimeout=15", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"};

char **cluster_ssh(
    const struct cluster_options *o, const struct cluster_host *host, const char *script) {
    char **words = co_xcalloc(WORDS_MAX + CO_ARRAY_LEN(ssh_options) + 8, sizeof(char *));
    size_t n = 0;
    const char *p = o->ssh;
    for (p += strspn(p, " "); *p && n < WORDS_MAX; p += strspn(p, " ")) {
        size_t len = strcspn(p, " ");
        words[n++] = co_xstrndup(p, len);
        p += len;
    }
    for (size_t i = 0; i < CO_ARRAY_LEN(ssh_options); i++) {
        words[n++] = co_xstrdup(ssh_options[i]);
    }
    if (host->port) {
        words[n++] = co_xstrdup("-p");
        words[n++] = co_xasprintf("%u", host->port);
    }
    if (*host->user) {
        words[n++] = co_xstrdup("-l");
        words[n++] = co_xstrdup(host->user);
    }
    words[n++] = co_xstrdup(host->name);
    /* Run by sh, whatever the user's login shell is. */
    CO_AUTOFREE char *quoted = cluster_shell_quote(script);
    words[n++] = co_xasprintf("exec sh -c %s", quoted);
    return words;
}

void cluster_words_free(char **words) {
    for (size_t i = 0; words && words[i]; i++) {
        free(words[i]);
    }
    free(words);
}
