/* nccl.h includes it, and names nothing of it in C. */
#pragma once
