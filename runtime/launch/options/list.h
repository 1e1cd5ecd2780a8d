/* A growing array of texts: endpoints, words of a command.  The list owns its texts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct options_list {
    char **item; /* owned texts, then NULL, once anything was added */
    size_t n, cap;
};

void options_list_done(struct options_list *l);
void options_list_add_own(struct options_list *l, char *text);
void options_list_add(struct options_list *l, const char *text);
/* Adds the parts of text between commas, without blanks around them.  Empty parts are omitted. */
void options_list_split(struct options_list *l, const char *text);
void options_list_split_at(
    struct options_list *l, const char *text, char between); /* another separator */
bool options_list_has(const struct options_list *l, const char *text);
char *options_list_join(const struct options_list *l, const char *between); /* the caller frees */
/* The list as Python prints it: ['a', "it's"].  The caller frees. */
char *options_list_python(char *const *item, size_t n);
