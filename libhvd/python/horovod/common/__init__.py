# SPDX-License-Identifier: Apache-2.0
"""What the packages for the frameworks share: the library, process sets, exceptions."""
