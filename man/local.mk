# SPDX-License-Identifier: Apache-2.0
# Manual pages, mdoc, kept clean under mandoc -Tlint and groff -ww.

dist_man_MANS += man/hvd-perf.1
