# SPDX-License-Identifier: Apache-2.0
# HVD_CHECK_HWLOC: topology of a node. The plugin is compiled with its headers and opens the library at run time.
AC_DEFUN([HVD_CHECK_HWLOC], [
HVD_WITH([hwloc], [bind tasks by the topology of the node])
HVD_PKG_LIBRARY([hwloc], [HWLOC], [hwloc], [hwloc.h], [hwloc_get_api_version()], [hwloc], [libhwloc-dev])
AM_CONDITIONAL([HAVE_HWLOC], [test $hvd_have_hwloc = yes])
AS_IF([test $hvd_have_hwloc = yes], [AC_DEFINE([HVD_HAVE_HWLOC], [1], [hwloc is there])])
])
