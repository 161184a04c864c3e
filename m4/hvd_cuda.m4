# SPDX-License-Identifier: Apache-2.0
# HVD_CHECK_CUDA: only nvcc is looked for. CUDA and NCCL themselves are opened at run time and never linked.
AC_DEFUN([HVD_CHECK_CUDA], [
HVD_WITH([cuda], [look for the CUDA compiler])
AC_ARG_VAR([NVCC], [CUDA compiler])
AS_IF([test "x$with_cuda" != xno], [
  AS_IF([test -n "$hvd_cuda_prefix"],
    [AC_PATH_PROG([NVCC], [nvcc], [], [$hvd_cuda_prefix/bin])],
    [AC_PATH_PROG([NVCC], [nvcc], [], [$PATH$PATH_SEPARATOR/usr/local/cuda/bin])])
  AS_IF([test -n "$NVCC"],
    [hvd_cuda_version=`"$NVCC" --version 2>/dev/null | sed -n 's/.*release \(@<:@0-9.@:>@*\),.*/\1/p'`
     HVD_FOUND([cuda], [CUDA ${hvd_cuda_version:-of an unknown version}, $NVCC; nothing is compiled with it yet])],
    [HVD_MISSING([cuda], [nvcc], [install the CUDA toolkit; Debian has one in nvidia-cuda-toolkit])])
])
AM_CONDITIONAL([HAVE_CUDA], [test $hvd_have_cuda = yes])
])
