# SPDX-License-Identifier: Apache-2.0
# The SPANK plugin: libhvdspank (all but Slurm's entry points; unit tests link it) and spank_horovod.so, made of it.

# What binds ranks to GPUs, cores and NICs: no Slurm in it, so hvd-info has it, too. hwloc is opened at run time.
noinst_LTLIBRARIES += spank/libbind.la
spank_libbind_la_SOURCES = \
  spank/assign.cc \
  spank/assign.h \
  spank/bind.cc \
  spank/bind.h \
  spank/bind_environment.cc \
  spank/bind_environment.h \
  spank/bind_parts.h \
  spank/bind_report.cc \
  spank/bind_report.h \
  spank/bind_warnings.cc \
  spank/choose_gpus.cc \
  spank/choose_nics.cc \
  spank/cpu_set.cc \
  spank/cpu_set.h \
  spank/deal_cores.cc \
  spank/topology.cc \
  spank/topology.h \
  spank/topology_hwloc.cc \
  spank/topology_hwloc.h \
  spank/topology_links.cc \
  spank/topology_source.cc \
  spank/topology_tree.cc \
  spank/topology_tree.h \
  spank/topology_xml.cc
spank_libbind_la_CPPFLAGS = $(AM_CPPFLAGS) $(HWLOC_CPPFLAGS)

EXTRA_DIST += spank/spank_horovod.map spank/horovod.conf.in
slurmexampledir = $(docdir)
dist_slurmexample_DATA = spank/cli_filter.lua
plugstackconfdir = $(plugstackdir)
plugstackconf_DATA =
slurmplugin_LTLIBRARIES =
HVD_SPANK_LIBRARY =

spank_libhvdspank_la_SOURCES = \
  spank/entry.h \
  spank/limits.cc \
  spank/limits.h \
  spank/local.cc \
  spank/node.cc \
  spank/node_bind.cc \
  spank/node_bind.h \
  spank/node_list.cc \
  spank/node_list.h \
  spank/options.cc \
  spank/options.h \
  spank/python_path.h \
  spank/step_facts.cc \
  spank/step_facts.h \
  spank/torch_variables.cc \
  spank/torch_variables.h
spank_libhvdspank_la_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CPPFLAGS) $(HWLOC_CPPFLAGS) -DHVD_PYTHON_DIR='"$(hvdpythondir)"'

spank_spank_horovod_la_SOURCES = spank/plugin.c
spank_spank_horovod_la_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CPPFLAGS)
# spank.h's macros declare what Slurm looks up without a visibility of their own; the map hides the rest.
spank_spank_horovod_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
spank_spank_horovod_la_LIBADD = $(HVD_SPANK_LIBRARY) spank/libbind.la libhvd/libbase.la
spank_spank_horovod_la_DEPENDENCIES = $(spank_spank_horovod_la_LIBADD) spank/spank_horovod.map

# No -z defs: the spank_* and slurm_* symbols come from the process that loads the plugin.
# libtool's C++ links name -lstdc++ and -lgcc_s themselves, so that -static-libstdc++ does nothing: link as C, name libstdc++.a.
spank_spank_horovod_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
  -Wl,--version-script=$(top_srcdir)/spank/spank_horovod.map $(HVD_STATIC_CXX_RUNTIME)
spank_spank_horovod_la_LINK = $(LIBTOOL) $(AM_V_lt) --tag=CC $(AM_LIBTOOLFLAGS) $(LIBTOOLFLAGS) --mode=link $(CCLD) \
  $(AM_CFLAGS) $(CFLAGS) $(spank_spank_horovod_la_LDFLAGS) $(LDFLAGS) -o $@
HVD_STATIC_CXX_RUNTIME = -Wl,-Bstatic,-lstdc++,-Bdynamic -Wc,-static-libgcc

if HAVE_SLURM
HVD_SPANK_LIBRARY += spank/libhvdspank.la
noinst_LTLIBRARIES += spank/libhvdspank.la
slurmplugin_LTLIBRARIES += spank/spank_horovod.la
plugstackconf_DATA += spank/horovod.conf
endif

# Made every time: `make install prefix=…` may name another directory than configure did.
CLEANFILES += spank/horovod.conf
spank/horovod.conf: always
	$(AM_V_at)$(MKDIR_P) spank && $(HVD_SUBSTITUTE) $(srcdir)/spank/horovod.conf.in > $@

# slurm loads the .so; a .la beside it would only be in the way.
install-data-hook:
	rm -f $(DESTDIR)$(slurmplugindir)/spank_horovod.la
uninstall-hook:
	rm -f $(DESTDIR)$(slurmplugindir)/spank_horovod.so
