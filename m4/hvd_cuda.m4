# SPDX-License-Identifier: Apache-2.0
# HVD_CHECK_CUDA: nvcc compiles the GPU kernels to data. CUDA and NCCL themselves are opened at run time and never linked;
# without nvcc the library is the same, without kernels.
AC_DEFUN([HVD_CHECK_CUDA], [
HVD_WITH([cuda], [compile the GPU kernels with nvcc])
AC_ARG_WITH([cuda-arch],
  [AS_HELP_STRING([--with-cuda-arch=LIST],
     [GPUs to compile the kernels for, as in 80,90, or "newest" (default: all from sm_75 that nvcc knows)])],
  [], [with_cuda_arch=default])
AC_ARG_VAR([NVCC], [CUDA compiler])
AC_ARG_VAR([NVCCFLAGS], [CUDA compiler flags])
NVCC_GENCODE=; NVCC_HOST=; CUDA_CPPFLAGS=
AS_IF([test "x$with_cuda" != xno], [
  AS_IF([test -n "$hvd_cuda_prefix"],
    [AC_PATH_PROG([NVCC], [nvcc], [], [$hvd_cuda_prefix/bin])],
    [AC_PATH_PROG([NVCC], [nvcc], [], [$PATH$PATH_SEPARATOR/usr/local/cuda/bin])])
  AS_IF([test -n "$NVCC"], [
    hvd_cuda_version=`"$NVCC" --version 2>/dev/null | sed -n 's/.*release \(@<:@0-9.@:>@*\),.*/\1/p'`
    HVD_CUDA_ARCHITECTURES
    # For the test alone that compares our declarations with the headers.
    hvd_cuda_include=`dirname "$NVCC"`/../include
    AS_IF([test -e "$hvd_cuda_include/cuda.h"], [CUDA_CPPFLAGS="-isystem $hvd_cuda_include"])
    # nvcc has one word for its host compiler: of "ccache g++ -m64" the compiler alone.
    for hvd_word in $CXX; do
      AS_CASE([$hvd_word], [*ccache|-*], [], [NVCC_HOST=$hvd_word; break])
    done
    AC_MSG_CHECKING([whether $NVCC compiles kernels with $NVCC_HOST])
    hvd_nvcc_works=no
    AS_ECHO(['struct S { int n; }; extern "C" __global__ void k(const __grid_constant__ S s, int *p) { *p = s.n; }']) >conftest.cu
    AS_IF(["$NVCC" -std=c++17 -ccbin "$NVCC_HOST" $NVCC_GENCODE $NVCCFLAGS -fatbin -o conftest.fatbin conftest.cu >conftest.err 2>&1 &&
             test -s conftest.fatbin],
      [hvd_nvcc_works=yes],
      [cat conftest.err >&AS_MESSAGE_LOG_FD])
    rm -f conftest.cu conftest.fatbin conftest.err
    AC_MSG_RESULT([$hvd_nvcc_works])])
  AS_IF([test -z "$NVCC"],
      [HVD_MISSING([cuda], [nvcc], [install the CUDA toolkit; Debian has one in nvidia-cuda-toolkit])],
    [test $hvd_nvcc_works = yes],
      [HVD_FOUND([cuda], [CUDA ${hvd_cuda_version:-of an unknown version}, $NVCC, kernels for $hvd_cuda_says_arch])],
    [HVD_MISSING([cuda], [a working nvcc], [config.log has what $NVCC says])])
])
AC_SUBST([NVCC_GENCODE])
AC_SUBST([NVCC_HOST])
AC_SUBST([CUDA_CPPFLAGS])
AM_CONDITIONAL([HAVE_CUDA], [test $hvd_have_cuda = yes])
AS_IF([test $hvd_have_cuda = yes],
  [AC_DEFINE([HVD_HAVE_PACK_MODULE], [1], [the GPU kernels are compiled and embedded])])
])

# HVD_CUDA_ARCHITECTURES
# Sets NVCC_GENCODE: machine code for each, and PTX of the newest for GPUs to come. What nvcc can do it says itself.
AC_DEFUN([HVD_CUDA_ARCHITECTURES], [
hvd_cuda_known=`"$NVCC" --list-gpu-code 2>/dev/null | sed -n 's/^sm_\(@<:@0-9@:>@*\)$/\1/p' | sort -n | tr '\n' ' '`
AS_CASE([$with_cuda_arch],
  [default|newest], [hvd_cuda_wanted="75 80 86 89 90 100 103 120"],
  [yes|no|''], [AC_MSG_ERROR([--with-cuda-arch needs a list, as in 80,90])],
  [hvd_cuda_wanted=`AS_ECHO(["$with_cuda_arch"]) | tr , '\n' | sort -n | tr '\n' ' '`])
hvd_cuda_says_arch=; hvd_cuda_newest=
AS_IF([test "x$with_cuda_arch" = xnewest], [
  for hvd_arch in $hvd_cuda_wanted; do
    AS_CASE([" $hvd_cuda_known "], [*" $hvd_arch "*], [hvd_cuda_newest=$hvd_arch])
  done
  hvd_cuda_wanted=$hvd_cuda_newest])
for hvd_arch in $hvd_cuda_wanted; do
  AS_CASE([" $hvd_cuda_known "],
    [*" $hvd_arch "*],
      [NVCC_GENCODE="$NVCC_GENCODE -gencode=arch=compute_$hvd_arch,code=sm_$hvd_arch"
       hvd_cuda_says_arch="$hvd_cuda_says_arch${hvd_cuda_says_arch:+ }sm_$hvd_arch"
       hvd_cuda_newest=$hvd_arch],
    [AS_IF([test "x$with_cuda_arch" != xdefault && test "x$with_cuda_arch" != xnewest],
       [AC_MSG_ERROR([--with-cuda-arch: $NVCC does not know "$hvd_arch"; it knows $hvd_cuda_known])])])
done
AS_IF([test -n "$hvd_cuda_newest"],
  [NVCC_GENCODE="$NVCC_GENCODE -gencode=arch=compute_$hvd_cuda_newest,code=compute_$hvd_cuda_newest"
   hvd_cuda_says_arch="$hvd_cuda_says_arch and newer"])
])
