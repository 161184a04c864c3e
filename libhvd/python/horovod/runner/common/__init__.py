# SPDX-License-Identifier: Apache-2.0
"""Where programs written for Horovod look for small things of its launcher."""
