/* Versions of libraries that are not there. */
#ifndef MEMBUDGET_VERSIONS_H
#define MEMBUDGET_VERSIONS_H

#include <stddef.h>

/* cuBLAS and cuBLASLt are of one release, with one number: major * 10000 + minor * 100 + patch. */
size_t cublasLtGetVersion(void);

/* cuDNN's that PyTorch was built for, as 92000; 0 where it is not known. */
size_t cudnn_version_of_torch(void);

#endif
