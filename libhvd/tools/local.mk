# SPDX-License-Identifier: Apache-2.0
# Tools see the library as any program does, through hvd.h; base/ they may use, too.

bin_PROGRAMS += libhvd/tools/hvd-perf
noinst_LTLIBRARIES += libhvd/tools/libperf.la

# What unit tests link: no rank and no MPI in it.
libhvd_tools_libperf_la_SOURCES = \
  libhvd/tools/perf/element.h \
  libhvd/tools/perf/idle.h \
  libhvd/tools/perf/measure.h \
  libhvd/tools/perf/options.cc \
  libhvd/tools/perf/options.h \
  libhvd/tools/perf/pattern.cc \
  libhvd/tools/perf/pattern.h \
  libhvd/tools/perf/report.cc \
  libhvd/tools/perf/report.h

libhvd_tools_hvd_perf_SOURCES = \
  libhvd/tools/perf/collectives.h \
  libhvd/tools/perf/hvd_collectives.cc \
  libhvd/tools/perf/idle.cc \
  libhvd/tools/perf/main.cc \
  libhvd/tools/perf/measure.cc \
  libhvd/tools/perf/mpi_collectives.cc
libhvd_tools_hvd_perf_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
libhvd_tools_hvd_perf_LDADD = libhvd/tools/libperf.la libhvd/libbase.la libhvd/libhvd.la $(MPI_LIBS)
