# SPDX-License-Identifier: Apache-2.0
# HVD_DIRECTORY(NAME, DEFAULT, HELP): a directory that `configure NAME=DIR` sets, as `make install NAME=DIR` does.
AC_DEFUN([HVD_DIRECTORY], [
AC_ARG_VAR([$1], [$3 (default: $2)])
AS_IF([test -z "$[]$1"], [$1='$2'])
])
