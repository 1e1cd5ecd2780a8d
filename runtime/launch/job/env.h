/* Builds the environment of a process, and replaces pods' names in texts by their addresses (for
 * `paddlerun local`).  Pure.  An environment belongs to one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/map.h"
#include "common/mem.h"

struct job_env {
    char **item; /* owned "NAME=value"s, then NULL, once anything was set: an envp */
    size_t n, cap;
};

void job_env_done(struct job_env *e);
const char *job_env_get(const struct job_env *e, const char *name); /* borrowed; NULL: not set */
void job_env_set(struct job_env *e, const char *name, const char *value);
void job_env_remove(struct job_env *e, const char *name);
/* Copies envp into an empty environment.  contract false: leaves out the variables of a job
 * (co_contract_of_job), so that a job that is started here does not join the job around it.  It
 * does not search for duplicates, as that would be slow: a pod gets seven variables for each
 * Service of its namespace, and there may be thousands. */
void job_env_inherit(struct job_env *e, char *const *envp, bool contract);

/* Replaces "$(NAME)" in text as Kubernetes does: unknown names stay, and "$$" becomes "$".  The
 * caller frees the result. */
char *job_env_expand(const struct job_env *e, const char *text);

/* Replaces pods' names in text, with or without a domain, by their addresses (map: name -> char *).
 * In a variable of the contract that holds hosts or endpoints every name is replaced; in other
 * texts (variable NULL: no variable) only names in front of ":<port>".  The caller frees the
 * result. */
char *job_env_addresses(const char *variable, const char *text, const struct co_map *addresses);
