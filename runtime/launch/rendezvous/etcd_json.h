/* Builds requests for etcd's JSON gateway, which wants keys and values in base64 and numbers of 64
 * bits as strings.  Pure.  The caller owns what is returned. */
#pragma once

#include <stdint.h>

#include "common/json/json.h"

/* {kind: body} */
json_t *rdzv_etcd_request(const char *kind, json_t *body_own);
/* A range of all keys that begin with prefix, and a range of a single key. */
json_t *rdzv_etcd_range(const char *prefix);
json_t *rdzv_etcd_one(const char *key);
/* Operations of a transaction; lease NULL: none. */
json_t *rdzv_etcd_put(char *key_own, const char *value, const char *lease);
json_t *rdzv_etcd_put_json(char *key_own, json_t *value_own, const char *lease);
json_t *rdzv_etcd_delete(char *key_own);
/* The condition of a transaction: the key was written last at that revision; 0: it does not
 * exist. */
json_t *rdzv_etcd_unchanged(const char *key, int64_t revision);
