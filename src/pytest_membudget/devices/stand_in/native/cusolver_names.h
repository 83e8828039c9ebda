/* cuSOLVER's functions by what they do to memory. Names: cusolverDn.h of CUDA 12.6 to 13.2. */
#ifndef MEMBUDGET_CUSOLVER_NAMES_H
#define MEMBUDGET_CUSOLVER_NAMES_H

#include "libraries.h"

#define FOUR_SOLVER(X, name, ...) FOUR_TYPES(X, cusolverDn, name, ##__VA_ARGS__)
#define REAL_SOLVER(X, name) X(cusolverDnS##name) X(cusolverDnD##name)
#define COMPLEX_SOLVER(X, name) X(cusolverDnC##name) X(cusolverDnZ##name)

#define WITH_SIZE(X, name) X(name) X(name##_bufferSize)
#define FOUR_WITH_SIZE(X, name) FOUR_SOLVER(X, name) FOUR_SOLVER(X, name##_bufferSize)
#define REAL_WITH_SIZE(X, name) REAL_SOLVER(X, name) REAL_SOLVER(X, name##_bufferSize)
#define COMPLEX_WITH_SIZE(X, name) COMPLEX_SOLVER(X, name) COMPLEX_SOLVER(X, name##_bufferSize)

/* Called by no PyTorch: refused by name. */
#define SOLVER_NOT_MODELLED(X)                                                                             \
    FOUR_WITH_SIZE(X, gebrd) FOUR_WITH_SIZE(X, lauum) FOUR_WITH_SIZE(X, potri) FOUR_WITH_SIZE(X, sytri)    \
    FOUR_SOLVER(X, laswp) REAL_WITH_SIZE(X, orgbr) REAL_WITH_SIZE(X, orgtr) REAL_WITH_SIZE(X, ormtr)       \
    REAL_WITH_SIZE(X, syevdx) REAL_WITH_SIZE(X, sygvd) REAL_WITH_SIZE(X, sygvdx) REAL_WITH_SIZE(X, sygvj) \
    REAL_WITH_SIZE(X, sytrd) COMPLEX_WITH_SIZE(X, ungbr) COMPLEX_WITH_SIZE(X, ungtr)                       \
    COMPLEX_WITH_SIZE(X, unmtr) COMPLEX_WITH_SIZE(X, heevdx) COMPLEX_WITH_SIZE(X, hegvd)                   \
    COMPLEX_WITH_SIZE(X, hegvdx) COMPLEX_WITH_SIZE(X, hegvj) COMPLEX_WITH_SIZE(X, hetrd)                   \
    WITH_SIZE(X, cusolverDnXgesvd) WITH_SIZE(X, cusolverDnXgesvdp) WITH_SIZE(X, cusolverDnXgesvdr)        \
    WITH_SIZE(X, cusolverDnXgetrf) X(cusolverDnXgetrs) WITH_SIZE(X, cusolverDnXlarft)                      \
    WITH_SIZE(X, cusolverDnXpolar) WITH_SIZE(X, cusolverDnXstedc) WITH_SIZE(X, cusolverDnXsyevdx)          \
    WITH_SIZE(X, cusolverDnXsygvd) WITH_SIZE(X, cusolverDnXsygvdx) WITH_SIZE(X, cusolverDnXtrtri)          \
    X(cusolverDnXgesvdjGetResidual) X( cusolverDnXgesvdjGetSweeps) X(cusolverDnXsyevjGetResidual)          \
    X(cusolverDnXsyevjGetSweeps) X(cusolverDnGetStream) X(cusolverDnGetDeterministicMode)                  \
    X(cusolverDnGetMathMode) X(cusolverSpCreate) X(cusolverSpDestroy)                \
    X(cusolverSpSetStream) FOUR_TYPES(X, cusolverSp, csrlsvqr) FOUR_TYPES(X, cusolverSp, csrlsvchol)       \
    X(cusolverMgCreate) X(cusolverMgDestroy) X(cusolverRfCreate) X(cusolverRfDestroy)

#endif
