/* A growing array of texts: endpoints, words of a command.  The list owns its texts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct rl_list {
    char **item; /* owned texts, then NULL, once anything was added */
    size_t n, cap;
};

void rl_list_done(struct rl_list *l);
void rl_list_add_own(struct rl_list *l, char *text);
void rl_list_add(struct rl_list *l, const char *text);
/* Adds the parts of text between commas, without blanks around them.  Empty parts are omitted. */
void rl_list_split(struct rl_list *l, const char *text);
void rl_list_split_at(struct rl_list *l, const char *text, char between); /* another separator */
bool rl_list_has(const struct rl_list *l, const char *text);
char *rl_list_join(const struct rl_list *l, const char *between); /* the caller frees */
/* The list as Python prints it: ['a', "it's"].  The caller frees. */
char *rl_list_python(char *const *item, size_t n);
