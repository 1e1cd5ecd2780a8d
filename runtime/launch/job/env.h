/* A process's environment under construction, and the addresses that stand for pods' names.
 * Pure; owned by one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/map.h"
#include "common/mem.h"

struct rl_env {
    char **item; /* owned "NAME=value"s, then NULL, once anything was set: an envp */
    size_t n, cap;
};

void rl_env_done(struct rl_env *e);
const char *rl_env_get(const struct rl_env *e, const char *name); /* borrowed; NULL: not set */
void rl_env_set(struct rl_env *e, const char *name, const char *value);
void rl_env_remove(struct rl_env *e, const char *name);
/* Copies "NAME=value"s into one that is empty.  contract false: without the variables of a job
 * (co_contract_of_job), as one started here must not take itself for a part of another.  Nothing is
 * looked for in what is there: a pod of a namespace of thousands of Services has a variable or
 * seven of each. */
void rl_env_inherit(struct rl_env *e, char *const *envp, bool contract);

/* text with "$(NAME)" replaced as Kubernetes does it: unknown ones stay, "$$" is "$".  The caller
 * frees. */
char *rl_env_expand(const struct rl_env *e, const char *text);

/* text with pods' names replaced by their addresses (map: name -> char *), also with a domain
 * behind the name.  In a variable of the contract that holds hosts or endpoints everywhere, in
 * others (variable NULL, too) only in front of ":<port>".  The caller frees. */
char *rl_env_addresses(const char *variable, const char *text, const struct co_map *addresses);
