/* Texts in a row: endpoints, words of a command.  Owned by whoever holds the list. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct rt_list {
    char **item; /* owned texts, then NULL, once anything was added */
    size_t n, cap;
};

void rt_list_done(struct rt_list *l);
void rt_list_add_own(struct rt_list *l, char *text);
void rt_list_add(struct rt_list *l, const char *text);
/* The parts of text between commas, without blanks around them; empty ones are left out. */
void rt_list_split(struct rt_list *l, const char *text);
void rt_list_split_at(struct rt_list *l, const char *text, char between); /* not between commas */
bool rt_list_has(const struct rt_list *l, const char *text);
char *rt_list_join(const struct rt_list *l, const char *between); /* the caller frees */
/* As Python prints it: ['a', "it's"]; the caller frees. */
char *rt_list_python(char *const *item, size_t n);
