# SPDX-License-Identifier: Apache-2.0
# libhvd: convenience libraries (base knows nothing, gpu is what is GPUs' alone, core is the runtime) and the shared library
# made of them.
# Unit tests link the convenience libraries; the plugin links libbase only.

noinst_LTLIBRARIES += libhvd/libbase.la libhvd/libgpu.la libhvd/libcore.la
lib_LTLIBRARIES += libhvd/libhvd.la
include_HEADERS += libhvd/hvd.h
pkgconfig_DATA += libhvd/hvd.pc
EXTRA_DIST += libhvd/README.md libhvd/libhvd.map libhvd/hvd.pc.in

# Made every time: `make install prefix=…` may name another directory than configure did. What is below the prefix is
# said relative to it.
CLEANFILES += libhvd/hvd.pc
libhvd/hvd.pc: always
	$(AM_V_at)$(MKDIR_P) libhvd && $(HVD_SUBSTITUTE) -e '/^prefix=/!s|=$(prefix)/|=$${prefix}/|' \
	  $(srcdir)/libhvd/hvd.pc.in >$@

# base/ and topo/: no MPI, no CUDA, no PMIx, no Slurm.
libhvd_libbase_la_SOURCES = \
  libhvd/base/bootstrap.h \
  libhvd/base/clock.h \
  libhvd/base/codec.h \
  libhvd/base/fd.cc \
  libhvd/base/fd.h \
  libhvd/base/handoff.cc \
  libhvd/base/handoff.h \
  libhvd/base/json.cc \
  libhvd/base/json.h \
  libhvd/base/log.cc \
  libhvd/base/log.h \
  libhvd/base/nearest.cc \
  libhvd/base/nearest.h \
  libhvd/base/parse.cc \
  libhvd/base/parse.h \
  libhvd/base/rank_list.cc \
  libhvd/base/rank_list.h \
  libhvd/base/settings.cc \
  libhvd/base/settings.def \
  libhvd/base/settings.h \
  libhvd/base/sha256.cc \
  libhvd/base/sha256.h \
  libhvd/base/status.cc \
  libhvd/base/status.h \
  libhvd/base/unix_socket.cc \
  libhvd/base/unix_socket.h \
  libhvd/base/wire.h \
  libhvd/topo/drawing.cc \
  libhvd/topo/layout.cc \
  libhvd/topo/layout.h \
  libhvd/topo/links.cc \
  libhvd/topo/links.h \
  libhvd/topo/places.cc \
  libhvd/topo/places.h

# transport/gpu/: no header and no library of CUDA or NCCL. Their kernels come along as data.
libhvd_libgpu_la_SOURCES = \
  libhvd/transport/gpu/cuda_abi.h \
  libhvd/transport/gpu/gpu_libraries.cc \
  libhvd/transport/gpu/gpu_libraries.h \
  libhvd/transport/gpu/nccl_abi.h \
  libhvd/transport/gpu/nccl_policy.cc \
  libhvd/transport/gpu/nccl_policy.h \
  libhvd/transport/gpu/pack.cc \
  libhvd/transport/gpu/pack.h \
  libhvd/transport/gpu/pack_arguments.h \
  libhvd/transport/gpu/pack_body.h \
  libhvd/transport/gpu/shared_object.cc \
  libhvd/transport/gpu/shared_object.h
EXTRA_DIST += libhvd/transport/gpu/pack_kernels.cu
if HAVE_CUDA
libhvd_libgpu_la_SOURCES += libhvd/transport/gpu/module.S
libhvd/transport/gpu/module.lo: libhvd/transport/gpu/pack_kernels.fatbin
CLEANFILES += libhvd/transport/gpu/pack_kernels.fatbin libhvd/transport/gpu/pack_kernels.ptxas
# No contraction, as in HVD_CXXFLAGS. What ptxas says of registers and spills is kept for the tests.
HVD_NVCCFLAGS = -std=c++17 -O3 -fmad=false -ccbin $(NVCC_HOST) -Xfatbin -compress-all -Xptxas -v
libhvd/transport/gpu/pack_kernels.fatbin: $(HVD_PACK_KERNEL_FILES)
	$(AM_V_GEN)$(MKDIR_P) libhvd/transport/gpu && \
	  if $(NVCC) $(HVD_NVCCFLAGS) $(NVCC_GENCODE) $(NVCCFLAGS) -I$(top_srcdir) -fatbin -o $@.tmp \
	    $(srcdir)/libhvd/transport/gpu/pack_kernels.cu >$(@:.fatbin=.ptxas) 2>&1; \
	  then mv $@.tmp $@; else cat $(@:.fatbin=.ptxas); exit 1; fi
endif
HVD_PACK_KERNEL_FILES = \
  libhvd/data/elements.h \
  libhvd/data/half.h \
  libhvd/transport/gpu/pack_arguments.h \
  libhvd/transport/gpu/pack_body.h \
  libhvd/transport/gpu/pack_kernels.cu

# data/ control/ coll/ transport/ engine/ stop/ trace/ runtime
libhvd_libcore_la_SOURCES = \
  libhvd/coll/adasum.cc \
  libhvd/coll/adasum.h \
  libhvd/coll/allgather.cc \
  libhvd/coll/allgather.h \
  libhvd/coll/alltoall.cc \
  libhvd/coll/alltoall.h \
  libhvd/coll/batch.cc \
  libhvd/coll/batch.h \
  libhvd/coll/cross.cc \
  libhvd/coll/cross.h \
  libhvd/coll/exchange.cc \
  libhvd/coll/exchange.h \
  libhvd/coll/gather.cc \
  libhvd/coll/gather.h \
  libhvd/coll/mail.cc \
  libhvd/coll/mail.h \
  libhvd/coll/pipeline.cc \
  libhvd/coll/pipeline.h \
  libhvd/coll/plan.cc \
  libhvd/coll/plan.h \
  libhvd/coll/slots.cc \
  libhvd/coll/slots.h \
  libhvd/coll/stage_times.h \
  libhvd/coll/stream.cc \
  libhvd/coll/stream.h \
  libhvd/coll/team.cc \
  libhvd/coll/team.h \
  libhvd/coll/turn.h \
  libhvd/control/aggregator.cc \
  libhvd/control/aggregator.h \
  libhvd/control/announcer.cc \
  libhvd/control/announcer.h \
  libhvd/control/board.cc \
  libhvd/control/board.h \
  libhvd/control/byte_ring.h \
  libhvd/control/control.cc \
  libhvd/control/control.h \
  libhvd/control/description.cc \
  libhvd/control/description.h \
  libhvd/control/message.cc \
  libhvd/control/message.h \
  libhvd/control/runs.cc \
  libhvd/control/runs.h \
  libhvd/control/scheduler.cc \
  libhvd/control/scheduler.h \
  libhvd/control/stall_watch.cc \
  libhvd/control/stall_watch.h \
  libhvd/control/tree.h \
  libhvd/data/elements.h \
  libhvd/data/half.h \
  libhvd/data/half_lanes.h \
  libhvd/data/kernels.cc \
  libhvd/data/kernels.h \
  libhvd/data/loops.h \
  libhvd/data/products.h \
  libhvd/data/set_avx2.cc \
  libhvd/data/set_avx512.cc \
  libhvd/data/set_portable.cc \
  libhvd/data/sets.h \
  libhvd/data/table.h \
  libhvd/data/types.cc \
  libhvd/data/types.h \
  libhvd/engine/batches.cc \
  libhvd/engine/describe.cc \
  libhvd/engine/driver.cc \
  libhvd/engine/driver.h \
  libhvd/engine/ends.cc \
  libhvd/engine/engine.cc \
  libhvd/engine/engine.h \
  libhvd/engine/fate.cc \
  libhvd/engine/fate.h \
  libhvd/engine/inspector.cc \
  libhvd/engine/inspector.h \
  libhvd/engine/operation.cc \
  libhvd/engine/operation.h \
  libhvd/engine/process_sets.cc \
  libhvd/engine/process_sets.h \
  libhvd/engine/stalls.cc \
  libhvd/engine/tracing.cc \
  libhvd/engine/tracing.h \
  libhvd/requests.cc \
  libhvd/requests.h \
  libhvd/record.cc \
  libhvd/record.h \
  libhvd/runtime.cc \
  libhvd/runtime.h \
  libhvd/stop/signals.cc \
  libhvd/stop/signals.h \
  libhvd/stop/squeue.cc \
  libhvd/stop/squeue.h \
  libhvd/stop/stop_watch.cc \
  libhvd/stop/stop_watch.h \
  libhvd/trace/array_file.cc \
  libhvd/trace/array_file.h \
  libhvd/trace/timeline.cc \
  libhvd/trace/timeline.h \
  libhvd/trace/timeline_path.cc \
  libhvd/trace/timeline_path.h \
  libhvd/trace/trace_text.cc \
  libhvd/trace/trace_text.h \
  libhvd/transport/acceptor.cc \
  libhvd/transport/acceptor.h \
  libhvd/transport/channel.h \
  libhvd/transport/handshake.cc \
  libhvd/transport/handshake.h \
  libhvd/transport/net/address.cc \
  libhvd/transport/net/address.h \
  libhvd/transport/net/connection.cc \
  libhvd/transport/net/connection.h \
  libhvd/transport/net/connector.cc \
  libhvd/transport/net/connector.h \
  libhvd/transport/net/tcp_wire.cc \
  libhvd/transport/net/tcp_wire.h \
  libhvd/transport/shm/node_link.cc \
  libhvd/transport/node_link.h \
  libhvd/transport/program_mpi.h
libhvd_libcore_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
if HAVE_MPI
libhvd_libcore_la_CPPFLAGS += -DHVD_HAVE_MPI
libhvd_libcore_la_SOURCES += \
  libhvd/transport/mpi/mpi_channel.cc \
  libhvd/transport/mpi/mpi_channel.h
endif

# c_api.cc is here and not in libcore also because libtool links a library without a C++ source of its own with gcc.
libhvd_libhvd_la_SOURCES = libhvd/c_api.cc libhvd/synchronous.cc
libhvd_libhvd_la_LIBADD = libhvd/libcore.la libhvd/libgpu.la $(HVD_PMIX_LIBRARY) libhvd/libbase.la $(MPI_LIBS) $(PMIX_LIBS) -ldl
libhvd_libhvd_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -Wl,--version-script=$(top_srcdir)/libhvd/libhvd.map
libhvd_libhvd_la_DEPENDENCIES = libhvd/libcore.la libhvd/libgpu.la $(HVD_PMIX_LIBRARY) libhvd/libbase.la libhvd/libhvd.map

# What a program (a test) links to get at the inside of the library, in the order a linker wants.
HVD_INTERNAL_OBJECTS = libhvd/libcore.la libhvd/libgpu.la $(HVD_PMIX_LIBRARY) libhvd/libbase.la
HVD_INTERNAL_LIBS = $(HVD_INTERNAL_OBJECTS) $(MPI_LIBS) $(PMIX_LIBS) -ldl
