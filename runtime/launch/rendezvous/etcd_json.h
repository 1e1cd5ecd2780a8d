/* Requests of etcd's JSON gateway: keys and values in base64, numbers of 64 bits as strings.  Pure;
 * the caller owns what is returned. */
#pragma once

#include <stdint.h>

#include "common/json.h"

/* {kind: body} */
json_t *rl_etcd_request(const char *kind, json_t *body_own);
/* All keys that begin with it; one key. */
json_t *rl_etcd_range(const char *prefix);
json_t *rl_etcd_one(const char *key);
/* An operation of a transaction; lease NULL: none. */
json_t *rl_etcd_put(char *key_own, const char *value, const char *lease);
json_t *rl_etcd_put_json(char *key_own, json_t *value_own, const char *lease);
json_t *rl_etcd_delete(char *key_own);
/* The condition of a transaction that key was written last at that revision; 0: never. */
json_t *rl_etcd_unchanged(const char *key, int64_t revision);
