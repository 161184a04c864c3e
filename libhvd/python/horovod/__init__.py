# SPDX-License-Identifier: Apache-2.0
"""A drop-in for Horovod on libhvd: ``import horovod.torch as hvd``.

``__version__`` is the release of Horovod whose interface this is; hvd-info tells the version of libhvd.
"""

from horovod.runner import run

__version__ = "0.28.1"

__all__ = ["run", "__version__"]
