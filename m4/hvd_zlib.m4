# SPDX-License-Identifier: Apache-2.0
# HVD_CHECK_ZLIB: the training example reads its data with it; the library does not need it.
AC_DEFUN([HVD_CHECK_ZLIB], [
HVD_WITH([zlib], [build the training example, which reads gzip'd data])
HVD_PKG_LIBRARY([zlib], [ZLIB], [zlib], [zlib.h], [zlibVersion()], [z], [zlib1g-dev])
AM_CONDITIONAL([HAVE_ZLIB], [test $hvd_have_zlib = yes])
])
