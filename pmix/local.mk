# SPDX-License-Identifier: Apache-2.0
# How a rank finds its peers, a convenience library. It sees libhvd/base and pmix.h, nothing else; without PMIx it still
# tells a job of one rank from a job that cannot be.

HVD_PMIX_LIBRARY = pmix/libhvdpmix.la
noinst_LTLIBRARIES += pmix/libhvdpmix.la
pmix_libhvdpmix_la_SOURCES = \
  pmix/launch.cc \
  pmix/launch.h \
  pmix/pmix_bootstrap.cc \
  pmix/pmix_bootstrap.h \
  pmix/pmix_client.h \
  pmix/rank_claim.cc \
  pmix/rank_claim.h
if HAVE_PMIX
pmix_libhvdpmix_la_SOURCES += pmix/pmix_client.cc
endif
pmix_libhvdpmix_la_CPPFLAGS = $(AM_CPPFLAGS) $(PMIX_CPPFLAGS)
