/* What nccl.h needs of CUDA's header of this name, which is in a compiler's package. */
#pragma once

#define __CUDA_BF16_TYPES_EXIST__ 1
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
