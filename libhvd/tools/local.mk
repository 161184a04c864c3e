# SPDX-License-Identifier: Apache-2.0
# Tools see the library as any program does, through hvd.h; base/ they may use, too.

bin_PROGRAMS += libhvd/tools/hvd-info libhvd/tools/hvd-perf
noinst_LTLIBRARIES += libhvd/tools/libinfo.la libhvd/tools/libperf.la

# All but main, which alone needs libhvd: unit tests link the rest.
libhvd_tools_libinfo_la_SOURCES = \
  libhvd/tools/info/ask.cc \
  libhvd/tools/info/ask.h \
  libhvd/tools/info/bind.cc \
  libhvd/tools/info/bind.h \
  libhvd/tools/info/gpu.cc \
  libhvd/tools/info/gpu.h \
  libhvd/tools/info/libraries.cc \
  libhvd/tools/info/libraries.h \
  libhvd/tools/info/options.cc \
  libhvd/tools/info/options.h \
  libhvd/tools/info/procfs.cc \
  libhvd/tools/info/procfs.h \
  libhvd/tools/info/python.cc \
  libhvd/tools/info/python.h \
  libhvd/tools/info/surroundings.cc \
  libhvd/tools/info/surroundings.h \
  libhvd/tools/info/text.cc \
  libhvd/tools/info/text.h
libhvd_tools_hvd_info_SOURCES = libhvd/tools/info/main.cc
libhvd_tools_hvd_info_LDADD = libhvd/tools/libinfo.la libhvd/libgpu.la spank/libbind.la $(HVD_PMIX_LIBRARY) \
  libhvd/libbase.la libhvd/libhvd.la -ldl

# What unit tests link: no rank and no MPI in it.
libhvd_tools_libperf_la_SOURCES = \
  libhvd/tools/perf/element.h \
  libhvd/tools/perf/idle.h \
  libhvd/tools/perf/measure.h \
  libhvd/tools/perf/models.cc \
  libhvd/tools/perf/models.h \
  libhvd/tools/perf/operation.h \
  libhvd/tools/perf/options.cc \
  libhvd/tools/perf/options.h \
  libhvd/tools/perf/pattern.cc \
  libhvd/tools/perf/pattern.h \
  libhvd/tools/perf/report.cc \
  libhvd/tools/perf/report.h \
  libhvd/tools/perf/rules.cc \
  libhvd/tools/perf/rules.h \
  libhvd/tools/perf/step.h \
  libhvd/tools/perf/step_report.cc \
  libhvd/tools/perf/work.h

libhvd_tools_hvd_perf_SOURCES = \
  libhvd/tools/perf/collectives.h \
  libhvd/tools/perf/hvd_collectives.cc \
  libhvd/tools/perf/idle.cc \
  libhvd/tools/perf/main.cc \
  libhvd/tools/perf/measure.cc \
  libhvd/tools/perf/mpi_collectives.cc \
  libhvd/tools/perf/rank_table.h \
  libhvd/tools/perf/step.cc \
  libhvd/tools/perf/work.cc
libhvd_tools_hvd_perf_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
libhvd_tools_hvd_perf_LDADD = libhvd/tools/libperf.la libhvd/tools/libinfo.la libhvd/libgpu.la $(HVD_PMIX_LIBRARY) \
  libhvd/libbase.la libhvd/libhvd.la $(MPI_LIBS) -ldl

# A thin start of horovod.runner.launch. Made every time: `make install prefix=…` may name another directory than
# configure did.
nodist_bin_SCRIPTS += libhvd/tools/run/horovodrun
EXTRA_DIST += libhvd/tools/run/horovodrun.in
CLEANFILES += libhvd/tools/run/horovodrun
libhvd/tools/run/horovodrun: always
	$(AM_V_at)$(MKDIR_P) libhvd/tools/run && $(HVD_SUBSTITUTE) $(srcdir)/libhvd/tools/run/horovodrun.in >$@.tmp && \
	  chmod 755 $@.tmp && mv $@.tmp $@
