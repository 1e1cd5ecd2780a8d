/* A file system that fails, for tests: the library of tests/disk, for LD_PRELOAD.  Below one
 * directory the n-th call that the fault can hit fails, or the power is cut there.  Functions are
 * found by dlsym; a program that knows nothing of the layer gets it by DISK_LAYER=DIR,FAULT,N.
 *
 * A cut kills the process and leaves the directory as a disk may have it then:
 *
 *     CUT_OLD    names as of the last sync of their directory
 *     CUT_NEW    all names as they are
 *     CUT_GONE   what was removed is gone, but names that were added since that sync are not there
 *
 * Whatever its name, a file has the bytes of its own last sync, or none.
 *
 * All calls below the directory take turns.  Known limits: memory maps are not seen; a hard link
 * counts as a new file. */
#pragma once

enum disk_fault {
    DISK_NONE, /* only counts */
    DISK_EIO,
    DISK_EACCES,
    DISK_ENOSPC,
    DISK_ESTALE,
    DISK_EMFILE,
    DISK_SHORT, /* moves half of the bytes */
    DISK_CUT_OLD,
    DISK_CUT_NEW,
    DISK_CUT_GONE,
    DISK_FAULTS,
};

#define DISK_FAULT_NAMES                                                                           \
    {                                                                                              \
        "none", "EIO", "EACCES", "ENOSPC", "ESTALE", "EMFILE", "short", "cut-old", "cut-new",      \
            "cut-gone"                                                                             \
    }

/* "disk_layer_arm": begins to count.  What is in dir then is durable.  n from 0; the faults of
 * `all` hit every call from the n-th on. */
typedef void disk_layer_arm_fn(const char *dir, enum disk_fault fault, unsigned n, int all);
/* "disk_layer_calm": no more faults.  Returns how many calls the fault could have hit. */
typedef unsigned disk_layer_calm_fn(void);
/* "disk_layer_cut": cuts the power now, in that way. */
typedef void disk_layer_cut_fn(enum disk_fault way);
