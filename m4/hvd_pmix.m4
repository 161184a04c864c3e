# SPDX-License-Identifier: Apache-2.0
# HVD_CHECK_PMIX: the PMIx client library. Debian keeps it in a directory of its own, which its pmix.pc knows.
AC_DEFUN([HVD_CHECK_PMIX], [
HVD_WITH([pmix], [find the other ranks through PMIx])
HVD_PKG_LIBRARY([pmix], [PMIX], [pmix], [pmix.h], [PMIx_Initialized()], [pmix], [libpmix-dev])
AM_CONDITIONAL([HAVE_PMIX], [test $hvd_have_pmix = yes])
AS_IF([test $hvd_have_pmix = yes], [AC_DEFINE([HVD_HAVE_PMIX], [1], [the PMIx client library is there])])
])
