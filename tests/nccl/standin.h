/* What the stand-in for NCCL uses of the one for the CUDA driver. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct nccl_cuda_stream;

/* Whoever calls has broken a rule of the library: says so and ends the process. */
void standin_broken(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Zeroed, for free. */
void *standin_new(size_t bytes);
/* What stands for bytes of a GPU's memory; all of them must be of one allocation. */
void *standin_memory(const void *address, size_t bytes);
/* After what is in the stream; runs on the stream's thread. */
void standin_enqueue(struct nccl_cuda_stream *stream, void (*run)(void *arg), void *arg);
/* A context must be the thread's. */
void standin_need_context(const char *what);
