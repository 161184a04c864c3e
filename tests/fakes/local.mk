# SPDX-License-Identifier: Apache-2.0
# The fake CUDA driver and the fake NCCL: shared objects for tests, never installed. They need no CUDA and no NCCL.

EXTRA_DIST += tests/fakes/gpu/README.md
check_PROGRAMS += tests/fakes/gpu/libcuda.so.1 tests/fakes/gpu/libnccl.so.2 tests/ranks/fake_gpu

# Automake knows shared objects as libtool's alone, and those have other names than what is opened here.
FAKE_GPU_CXXFLAGS = $(AM_CXXFLAGS) -fPIC
FAKE_GPU_LINK = $(CXX) $(FAKE_GPU_CXXFLAGS) $(CXXFLAGS) -shared -Wl,-soname,$(@F) $(LDFLAGS) -o $@

tests_fakes_gpu_libcuda_so_1_SOURCES = \
  tests/fakes/gpu/abi_check.cc \
  tests/fakes/gpu/cuda_abi.h \
  tests/fakes/gpu/devices.cc \
  tests/fakes/gpu/devices.h \
  tests/fakes/gpu/driver_memory.cc \
  tests/fakes/gpu/driver_stream.cc \
  tests/fakes/gpu/engine.cc \
  tests/fakes/gpu/engine.h \
  tests/fakes/gpu/kernels.cc \
  tests/fakes/gpu/memory.cc \
  tests/fakes/gpu/memory.h \
  tests/fakes/gpu/order.cc \
  tests/fakes/gpu/order.h \
  tests/fakes/gpu/settings.cc \
  tests/fakes/gpu/settings.h
tests_fakes_gpu_libcuda_so_1_CXXFLAGS = $(FAKE_GPU_CXXFLAGS)
tests_fakes_gpu_libcuda_so_1_LINK = $(FAKE_GPU_LINK)
tests_fakes_gpu_libcuda_so_1_LDADD = -ldl

tests_fakes_gpu_libnccl_so_2_SOURCES = \
  tests/fakes/gpu/comm.cc \
  tests/fakes/gpu/comm.h \
  tests/fakes/gpu/comm_end.cc \
  tests/fakes/gpu/nccl.cc \
  tests/fakes/gpu/nccl_abi.h \
  tests/fakes/gpu/operation.cc \
  tests/fakes/gpu/operation.h \
  tests/fakes/gpu/reduce.cc \
  tests/fakes/gpu/reduce.h \
  tests/fakes/gpu/run.cc \
  tests/fakes/gpu/run.h \
  tests/fakes/gpu/segment.cc \
  tests/fakes/gpu/segment.h
tests_fakes_gpu_libnccl_so_2_CXXFLAGS = $(FAKE_GPU_CXXFLAGS)
tests_fakes_gpu_libnccl_so_2_LINK = $(FAKE_GPU_LINK) -Wl,-rpath,'$$ORIGIN'
tests_fakes_gpu_libnccl_so_2_LDADD = tests/fakes/gpu/libcuda.so.1

# Its ranks' kernels are found in the program itself.
tests_ranks_fake_gpu_SOURCES = \
  tests/fakes/gpu/probe.cc \
  tests/fakes/gpu/probe.h \
  tests/fakes/gpu/probe_faults.cc \
  tests/fakes/gpu/probe_pack.cc \
  tests/fakes/gpu/probe_rules.cc \
  tests/fakes/gpu/probe_values.cc \
  tests/fakes/gpu/reduce.cc
tests_ranks_fake_gpu_CPPFLAGS = $(AM_CPPFLAGS)
tests_ranks_fake_gpu_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_ranks_fake_gpu_LDADD = -ldl
EXTRA_tests_ranks_fake_gpu_DEPENDENCIES = tests/fakes/gpu/libcuda.so.1 tests/fakes/gpu/libnccl.so.2 tests/fakes/gpu/kernel_twins.la

# What of them is pure.
tests_unit_unit_SOURCES += \
  tests/fakes/gpu/order.cc \
  tests/fakes/gpu/reduce.cc \
  tests/fakes/gpu/settings.cc \
  tests/unit/fake_gpu_test.cc
