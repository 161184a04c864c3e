# SPDX-License-Identifier: Apache-2.0
# Unit tests are one Catch2 binary that mirrors the rooms; `make check` runs it. tests/run.sh runs it and all the rest.

# A test file that is there is distributed; the part `dist` of run.sh names what is not.
EXTRA_DIST += tests/cluster/cluster tests/cluster/boot tests/cluster/leftovers tests/packages/overlay tests/python/bench tests/python/ranks
EXTRA_DIST += tests/fuzz/run tests/fuzz/corpus tests/fuzz/lines.h tests/fuzz/facts.cc tests/fuzz/gpus.cc tests/fuzz/handoff.cc \
  tests/fuzz/mapping.cc tests/fuzz/node.cc tests/fuzz/options.cc tests/fuzz/plugstack.cc tests/fuzz/report.cc tests/fuzz/topology.cc
dist-hook:
	@cd $(srcdir) && cp -p --parents tests/*.sh tests/*.bash tests/*.py tests/*.supp tests/*/*.bash tests/*/*.bats tests/*/*.py tests/*/*/*.py tests/*/*.xml \
	  $(abs_builddir)/$(distdir)

if HAVE_CATCH2
check_PROGRAMS += tests/unit/unit
check_LIBRARIES += tests/unit/libmain.a
TESTS += tests/unit/unit
endif

# Catch2 2 is compiled where its main is. On its own and without sanitizers, which would make that minutes.
tests_unit_libmain_a_SOURCES = tests/unit/catch.h tests/unit/main.cc
tests_unit_libmain_a_CPPFLAGS = $(AM_CPPFLAGS) $(CATCH2_CPPFLAGS)
tests_unit_libmain_a_CXXFLAGS = -std=c++17 $(HVD_WARNINGS)

tests_unit_unit_SOURCES = \
  tests/fakes/gpu/kernel_twins.cc \
  tests/fakes/gpu/kernel_twins.h \
  tests/random.h \
  tests/ranks/mix_draw.cc \
  tests/ranks/mix_draw.h \
  tests/ranks/mix_draw_sets.cc \
  tests/ranks/mix_model.cc \
  tests/ranks/mix_model.h \
  tests/ranks/mix_run.cc \
  tests/ranks/mix_run.h \
  tests/ranks/mix_values.cc \
  tests/ranks/mix_values.h \
  tests/ranks/rounds_model.cc \
  tests/ranks/rounds_model.h \
  tests/unit/address_test.cc \
  tests/unit/aggregator_test.cc \
  tests/unit/agreement_job.cc \
  tests/unit/agreement_job.h \
  tests/unit/agreement_plan.cc \
  tests/unit/agreement_plan.h \
  tests/unit/agreement_test.cc \
  tests/unit/assign_test.cc \
  tests/unit/batch_property_test.cc \
  tests/unit/bind_case_test.cc \
  tests/unit/bind_cases.def \
  tests/unit/bind_environment_test.cc \
  tests/unit/bind_info_test.cc \
  tests/unit/bind_node_test.cc \
  tests/unit/bind_property_test.cc \
  tests/unit/bind_report_test.cc \
  tests/unit/bind_words.cc \
  tests/unit/bind_words.h \
  tests/unit/catch.h \
  tests/unit/control_property_test.cc \
  tests/unit/control_test.cc \
  tests/unit/control_words.cc \
  tests/unit/control_words.h \
  tests/unit/cpu_set_test.cc \
  tests/unit/description_test.cc \
  tests/unit/ends_test.cc \
  tests/unit/engine_joins_test.cc \
  tests/unit/engine_sets_test.cc \
  tests/unit/engine_test.cc \
  tests/unit/engine_words.cc \
  tests/unit/engine_words.h \
  tests/unit/exchange_plan_test.cc \
  tests/unit/exchange_test.cc \
  tests/unit/folder.h \
  tests/unit/gpu_abi_test.cc \
  tests/unit/gpu_libraries_test.cc \
  tests/unit/handoff_test.cc \
  tests/unit/handshake_test.cc \
  tests/unit/info_test.cc \
  tests/unit/inspector_test.cc \
  tests/unit/json_test.cc \
  tests/unit/kernels_float_test.cc \
  tests/unit/kernels_reference.cc \
  tests/unit/kernels_reference.h \
  tests/unit/kernels_test.cc \
  tests/unit/launch_test.cc \
  tests/unit/layout_test.cc \
  tests/unit/links_test.cc \
  tests/unit/log_test.cc \
  tests/unit/mix_test.cc \
  tests/unit/node_link_test.cc \
  tests/unit/operation_table_test.cc \
  tests/unit/pack_test.cc \
  tests/unit/parse_test.cc \
  tests/unit/perf_pattern_test.cc \
  tests/unit/perf_test.cc \
  tests/unit/places_test.cc \
  tests/unit/plan_property_test.cc \
  tests/unit/plan_test.cc \
  tests/unit/processes.h \
  tests/unit/random_cases.cc \
  tests/unit/random_cases.h \
  tests/unit/record_test.cc \
  tests/unit/rounds_test.cc \
  tests/unit/runs_test.cc \
  tests/unit/scheduler_sets_test.cc \
  tests/unit/scheduler_test.cc \
  tests/unit/scheduler_words.h \
  tests/unit/settings_test.cc \
  tests/unit/sha256_test.cc \
  tests/unit/stall_watch_test.cc \
  tests/unit/stop_test.cc \
  tests/unit/stream_job.cc \
  tests/unit/stream_job.h \
  tests/unit/stream_model.cc \
  tests/unit/stream_test.cc \
  tests/unit/tcp_wire_test.cc \
  tests/unit/thread_job.cc \
  tests/unit/thread_job.h \
  tests/unit/topology_links_test.cc \
  tests/unit/topology_test.cc \
  tests/unit/trace_file_test.cc \
  tests/unit/trace_path_test.cc \
  tests/unit/trace_test.cc \
  tests/unit/trace_words.cc \
  tests/unit/trace_words.h

if HAVE_SLURM
tests_unit_unit_SOURCES += \
  spank/plugin.c \
  tests/fakes/spank/slurm.cc \
  tests/fakes/spank/slurm.h \
  tests/unit/spank_hostile_test.cc \
  tests/unit/spank_local_test.cc \
  tests/unit/limits_test.cc \
  tests/unit/node_list_test.cc \
  tests/unit/spank_node_test.cc \
  tests/unit/spank_options_test.cc \
  tests/unit/step_facts_test.cc \
  tests/unit/torch_variables_test.cc

check_PROGRAMS += tests/unit/spank_quiet
TESTS += tests/unit/spank_quiet
endif

tests_unit_spank_quiet_SOURCES = \
  spank/plugin.c \
  tests/fakes/spank/slurm.cc \
  tests/fakes/spank/slurm.h \
  tests/unit/spank_quiet.cc
tests_unit_spank_quiet_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CPPFLAGS)
tests_unit_spank_quiet_LDADD = $(HVD_SPANK_LIBRARY) spank/libbind.la libhvd/libbase.la

# GPU kernels on the host, for a fake device to find by name. -rpath makes libtool build a shared object.
check_LTLIBRARIES += tests/fakes/gpu/kernel_twins.la
tests_fakes_gpu_kernel_twins_la_SOURCES = tests/fakes/gpu/kernel_twins.cc tests/fakes/gpu/kernel_twins.h
tests_fakes_gpu_kernel_twins_la_CXXFLAGS = $(HVD_CXXFLAGS) $(HVD_TEST_OPT)
tests_fakes_gpu_kernel_twins_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere

tests_unit_unit_CPPFLAGS = $(AM_CPPFLAGS) $(CATCH2_CPPFLAGS) $(SLURM_CPPFLAGS) $(HWLOC_CPPFLAGS) $(PMIX_CPPFLAGS) $(CUDA_CPPFLAGS)
tests_unit_unit_CXXFLAGS = $(HVD_CXXFLAGS) $(HVD_TEST_OPT) $(HVD_PRECOMPILED)
# To read Catch2's header takes as long as to compile most tests: g++ does it once. What it has read has to come first in
# a file; it is found before catch.h itself, whose folder comes later, and left aside where other flags are in force.
if PRECOMPILED_HEADER
HVD_PRECOMPILED = -include tests/unit/catch.h
tests/unit/catch.h.gch: $(srcdir)/tests/unit/catch.h config.h
	$(AM_V_GEN)$(MKDIR_P) tests/unit && $(CXX) $(DEFS) $(DEFAULT_INCLUDES) $(INCLUDES) $(tests_unit_unit_CPPFLAGS) \
	  $(CPPFLAGS) $(HVD_CXXFLAGS) $(HVD_TEST_OPT) $(CXXFLAGS) -x c++-header -c $(srcdir)/tests/unit/catch.h -o $@
$(tests_unit_unit_OBJECTS): | tests/unit/catch.h.gch
CLEANFILES += tests/unit/catch.h.gch
endif
tests_unit_unit_LDADD = tests/unit/libmain.a libhvd/tools/libinfo.la libhvd/tools/libperf.la $(HVD_SPANK_LIBRARY) spank/libbind.la $(HVD_INTERNAL_LIBS) $(CATCH2_LIBS)

# Programs whose ranks are started by mpirun and srun, and the tests that do so.
check_PROGRAMS += \
  tests/ranks/contract \
  tests/ranks/lifecycle \
  tests/ranks/mix \
  tests/ranks/operations \
  tests/ranks/pmix_probe \
  tests/ranks/rounds \
  tests/ranks/stalls \
  tests/ranks/stop \
  tests/ranks/worker

tests_ranks_rounds_SOURCES = \
  tests/random.h \
  tests/ranks/program.h \
  tests/ranks/rounds.cc \
  tests/ranks/rounds_model.cc \
  tests/ranks/rounds_model.h
tests_ranks_rounds_CPPFLAGS = $(AM_CPPFLAGS)
tests_ranks_rounds_LDADD = libhvd/libhvd.la

tests_ranks_stalls_SOURCES = tests/ranks/stalls.cc
tests_ranks_stalls_CPPFLAGS = $(AM_CPPFLAGS)
tests_ranks_stalls_LDADD = libhvd/libhvd.la

tests_ranks_stop_SOURCES = tests/ranks/stop.cc
tests_ranks_stop_CPPFLAGS = $(AM_CPPFLAGS)
tests_ranks_stop_LDADD = libhvd/libhvd.la

tests_ranks_mix_SOURCES = \
  tests/random.h \
  tests/ranks/mix.cc \
  tests/ranks/mix_draw.cc \
  tests/ranks/mix_draw.h \
  tests/ranks/mix_draw_sets.cc \
  tests/ranks/mix_model.cc \
  tests/ranks/mix_model.h \
  tests/ranks/mix_run.cc \
  tests/ranks/mix_run.h \
  tests/ranks/mix_values.cc \
  tests/ranks/mix_values.h \
  tests/ranks/rounds_model.cc \
  tests/ranks/rounds_model.h
tests_ranks_mix_CPPFLAGS = $(AM_CPPFLAGS)
tests_ranks_mix_LDADD = libhvd/libhvd.la

tests_ranks_worker_SOURCES = tests/ranks/program.h tests/ranks/worker.cc
tests_ranks_worker_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
tests_ranks_worker_LDADD = libhvd/libhvd.la $(MPI_LIBS)
if HAVE_MPI
tests_ranks_worker_CPPFLAGS += -DHVD_HAVE_MPI
endif

tests_ranks_lifecycle_SOURCES = tests/ranks/lifecycle.cc tests/ranks/hooks.cc
tests_ranks_lifecycle_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
tests_ranks_lifecycle_LDADD = libhvd/libhvd.la $(MPI_LIBS) -ldl
if HAVE_MPI
tests_ranks_lifecycle_CPPFLAGS += -DHVD_HAVE_MPI
endif

tests_ranks_contract_SOURCES = \
  tests/random.h \
  tests/ranks/program.h \
  tests/ranks/contract.cc \
  tests/ranks/contract.h \
  tests/ranks/contract_errors.cc \
  tests/ranks/contract_join.cc \
  tests/ranks/contract_rules.cc \
  tests/ranks/operations_types.h
tests_ranks_contract_CPPFLAGS = $(AM_CPPFLAGS)
tests_ranks_contract_LDADD = libhvd/libhvd.la

tests_ranks_operations_SOURCES = \
  tests/random.h \
  tests/ranks/program.h \
  tests/ranks/operations.cc \
  tests/ranks/operations_cases.cc \
  tests/ranks/operations_cases.h \
  tests/ranks/operations_reference.cc \
  tests/ranks/operations_reference.h \
  tests/ranks/operations_trial.cc \
  tests/ranks/operations_trial.h \
  tests/ranks/operations_types.h
tests_ranks_operations_CPPFLAGS = $(AM_CPPFLAGS)
tests_ranks_operations_LDADD = libhvd/libhvd.la

tests_ranks_pmix_probe_SOURCES = tests/ranks/pmix_probe.cc
tests_ranks_pmix_probe_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
tests_ranks_pmix_probe_LDADD = $(HVD_INTERNAL_LIBS)

# What tests/run.sh asks for, so that it keeps no list of its own. One at a time: `programs` is a make of its own, and two
# would write the same files.
.PHONY: programs test-programs rank-programs unit-tests list-unit-tests
programs: all $(EXTRA_PROGRAMS)
test-programs: $(check_PROGRAMS) $(check_LTLIBRARIES)
rank-programs:
	$(MAKE) `printf '%s\n' $(check_PROGRAMS) | grep '^tests/ranks/'`
unit-tests: $(TESTS)
list-unit-tests:
	@echo unit-tests: $(TESTS)

# What is checked of an installed tree, wherever it is.
if HAVE_SLURM
HVD_PLUGIN = yes
else
HVD_PLUGIN = no
endif
installcheck-local:
	@DESTDIR='$(DESTDIR)' libdir='$(libdir)' includedir='$(includedir)' bindir='$(bindir)' mandir='$(mandir)' \
	  slurmplugindir='$(slurmplugindir)' plugstackdir='$(plugstackdir)' plugin='$(HVD_PLUGIN)' prefix='$(prefix)' \
	  docdir='$(docdir)' modulefilesdir='$(modulefilesdir)' completionsdir='$(completionsdir)' \
	  programs='$(bin_PROGRAMS) $(nodist_bin_SCRIPTS)' pages='$(dist_man_MANS) $(nodist_man_MANS)' \
	  CC='$(CC)' sanitizer='$(HVD_SANITIZER)' version='$(PACKAGE_VERSION)' $(srcdir)/tests/installcheck.sh
