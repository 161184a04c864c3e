# SPDX-License-Identifier: Apache-2.0
# The Python package: files that are copied, nothing is compiled. It finds the library two folders above where it is.
# One variable for each folder: that is how automake installs and uninstalls trees.

hvdpackagedir = $(hvdpythondir)/horovod
dist_hvdpackage_DATA = libhvd/python/horovod/__init__.py

hvdcommondir = $(hvdpackagedir)/common
dist_hvdcommon_DATA = \
  libhvd/python/horovod/common/__init__.py \
  libhvd/python/horovod/common/_library.py \
  libhvd/python/horovod/common/basics.py \
  libhvd/python/horovod/common/elastic.py \
  libhvd/python/horovod/common/exceptions.py \
  libhvd/python/horovod/common/process_sets.py \
  libhvd/python/horovod/common/util.py

hvdtorchdir = $(hvdpackagedir)/torch
dist_hvdtorch_DATA = \
  libhvd/python/horovod/torch/__init__.py \
  libhvd/python/horovod/torch/_async.py \
  libhvd/python/horovod/torch/_autograd.py \
  libhvd/python/horovod/torch/_gradients.py \
  libhvd/python/horovod/torch/_operations.py \
  libhvd/python/horovod/torch/_tensors.py \
  libhvd/python/horovod/torch/compression.py \
  libhvd/python/horovod/torch/functions.py \
  libhvd/python/horovod/torch/mpi_ops.py \
  libhvd/python/horovod/torch/optimizer.py \
  libhvd/python/horovod/torch/sync_batch_norm.py

hvdelasticdir = $(hvdtorchdir)/elastic
dist_hvdelastic_DATA = \
  libhvd/python/horovod/torch/elastic/__init__.py \
  libhvd/python/horovod/torch/elastic/sampler.py \
  libhvd/python/horovod/torch/elastic/state.py

hvdrunnerdir = $(hvdpackagedir)/runner
dist_hvdrunner_DATA = \
  libhvd/python/horovod/runner/__init__.py \
  libhvd/python/horovod/runner/_config.py \
  libhvd/python/horovod/runner/_flags.py \
  libhvd/python/horovod/runner/_hosts.py \
  libhvd/python/horovod/runner/_local.py \
  libhvd/python/horovod/runner/_task.py \
  libhvd/python/horovod/runner/launch.py

hvdrunnercommondir = $(hvdrunnerdir)/common
dist_hvdrunnercommon_DATA = libhvd/python/horovod/runner/common/__init__.py

hvdrunnercommonutildir = $(hvdrunnercommondir)/util
dist_hvdrunnercommonutil_DATA = \
  libhvd/python/horovod/runner/common/util/__init__.py \
  libhvd/python/horovod/runner/common/util/env.py

hvdrunnerutildir = $(hvdrunnerdir)/util
dist_hvdrunnerutil_DATA = \
  libhvd/python/horovod/runner/util/__init__.py \
  libhvd/python/horovod/runner/util/threads.py

hvdkerasdir = $(hvdpackagedir)/keras
dist_hvdkeras_DATA = libhvd/python/horovod/keras/__init__.py

hvdmxnetdir = $(hvdpackagedir)/mxnet
dist_hvdmxnet_DATA = libhvd/python/horovod/mxnet/__init__.py

hvdtensorflowdir = $(hvdpackagedir)/tensorflow
dist_hvdtensorflow_DATA = libhvd/python/horovod/tensorflow/__init__.py
