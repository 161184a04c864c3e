# SPDX-License-Identifier: Apache-2.0
# Manual pages, mdoc, kept clean under mandoc -Tlint and groff -ww. horovod(7) is made of its text and the table of settings;
# hvd(3) is found under the name of every function, too.

dist_man_MANS += man/horovodrun.1 man/hvd-info.1 man/hvd-perf.1 man/hvd.3
nodist_man_MANS = man/horovod.7 man/spank_horovod.8
EXTRA_DIST += man/spank_horovod.8.in man/horovod.7.in man/horovod.awk man/settings.rows

# Made every time: `make install prefix=…` may name another directory than configure did.
CLEANFILES += man/horovod.7 man/spank_horovod.8
man/horovod.7: always
	$(AM_V_GEN)$(MKDIR_P) man && $(CPP) -P $(AM_CPPFLAGS) - <$(srcdir)/man/settings.rows | \
	  $(AWK) -f $(srcdir)/man/horovod.awk - $(srcdir)/man/horovod.7.in >$@.tmp && \
	  $(HVD_SUBSTITUTE) $@.tmp >$@ && rm -f $@.tmp
man/spank_horovod.8: always
	$(AM_V_GEN)$(MKDIR_P) man && $(HVD_SUBSTITUTE) $(srcdir)/man/spank_horovod.8.in >$@.tmp && mv $@.tmp $@

# The functions of hvd.h. A page that is one line, .so, stands for the page that the line names.
HVD_FUNCTIONS = $(SED) -n 's/^HVD_API.*[ *]\(hvd_[a-z_]*\)(.*/\1/p' $(srcdir)/libhvd/hvd.h
install-data-local: install-completion
	$(MKDIR_P) '$(DESTDIR)$(man3dir)'
	for name in `$(HVD_FUNCTIONS)`; do \
	  echo '.so man3/hvd.3' >'$(DESTDIR)$(man3dir)'/$$name.3 && chmod 644 '$(DESTDIR)$(man3dir)'/$$name.3 || exit 1; \
	done
uninstall-local: uninstall-completion
	for name in `$(HVD_FUNCTIONS)`; do rm -f '$(DESTDIR)$(man3dir)'/$$name.3; done
