# SPDX-License-Identifier: Apache-2.0
# Manual pages, mdoc, kept clean under mandoc -Tlint and groff -ww. horovod(7) is made of its text and the table of settings.

dist_man_MANS += man/hvd-info.1 man/hvd-perf.1
nodist_man_MANS = man/horovod.7
EXTRA_DIST += man/horovod.7.in man/horovod.awk man/settings.rows

# Made every time: `make install prefix=…` may name another directory than configure did.
CLEANFILES += man/horovod.7
man/horovod.7: always
	$(AM_V_GEN)$(MKDIR_P) man && $(CPP) -P $(AM_CPPFLAGS) - <$(srcdir)/man/settings.rows | \
	  $(AWK) -f $(srcdir)/man/horovod.awk - $(srcdir)/man/horovod.7.in >$@.tmp && \
	  $(HVD_SUBSTITUTE) $@.tmp >$@ && rm -f $@.tmp
