/* What of a directory is durable: of each file the bytes at its last sync, of each directory the
 * names at its own.  One thread at a time. */
#pragma once

enum shadow_way { SHADOW_OLD, SHADOW_NEW, SHADOW_GONE }; /* the cuts of disk_layer_testing.h */

void shadow_begin(const char *root); /* all that is there is durable */
void shadow_synced(int fd);
void shadow_removes(const char *path);  /* this name is about to be removed */
void shadow_replaces(const char *path); /* by a rename: until that is synced, the old stays */
/* Makes the directory what a disk has after the power was cut. */
void shadow_write(const char *root, enum shadow_way way);
