# SPDX-License-Identifier: Apache-2.0
# Examples that are read, built and run: the shortest way from nothing to a trained model.
# Not installed: examples/train runs from where it is built, with the library beside it; the scripts run from anywhere.

EXTRA_DIST += examples/job.sbatch examples/job_requeue.sbatch examples/job_torch.sbatch examples/quickstart.sh examples/synthetic_benchmark.py \
  examples/train.py examples/container/README.md examples/container/horovod.def examples/spack/package.py

if HAVE_ZLIB
noinst_PROGRAMS += examples/train
endif

examples_train_SOURCES = \
  examples/fashion_mnist.cc \
  examples/fashion_mnist.h \
  examples/network.cc \
  examples/network.h \
  examples/random.h \
  examples/train.cc
examples_train_CPPFLAGS = $(AM_CPPFLAGS) $(ZLIB_CPPFLAGS)
# No libtool script in between: it would want to write to the build tree, as whoever runs it.
examples_train_LDFLAGS = $(AM_LDFLAGS) -no-install
# libbase: for its SHA-256.
examples_train_LDADD = libhvd/libhvd.la libhvd/libbase.la $(ZLIB_LIBS)
