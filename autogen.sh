#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes ./configure from a git checkout. Needs autoconf, automake, libtool and pkg-config.
set -eu
cd "$(dirname "$0")"
exec autoreconf --install --force --warnings=all
