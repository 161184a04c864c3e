# SPDX-License-Identifier: Apache-2.0
# The PMIx client, a convenience library. It sees libhvd/base and pmix.h, nothing else.

HVD_PMIX_LIBRARY =
if HAVE_PMIX
HVD_PMIX_LIBRARY += pmix/libhvdpmix.la
noinst_LTLIBRARIES += pmix/libhvdpmix.la
endif
pmix_libhvdpmix_la_SOURCES =
pmix_libhvdpmix_la_CPPFLAGS = $(AM_CPPFLAGS) $(PMIX_CPPFLAGS)
