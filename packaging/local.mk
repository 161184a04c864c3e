# SPDX-License-Identifier: Apache-2.0
# What a site installs beside programs: the modulefile and completion for bash. And what packages are made by:
# debian/.

EXTRA_DIST += packaging/modulefile.in packaging/completion.bash
EXTRA_DIST += debian/changelog debian/clean debian/control debian/control.in debian/copyright debian/horovod-tools.install \
  debian/horovod-tools.links debian/libhvd-dev.install debian/libhvd0.install debian/plugin.install debian/plugin.postinst \
  debian/plugin.postrm debian/python3-hvd.install debian/rules debian/source/format

# The name of a modulefile is the version. Made every time: `make install prefix=…` may name another directory than
# configure did.
modulefiledir = $(modulefilesdir)/horovod
modulefile_DATA = packaging/$(PACKAGE_VERSION)
CLEANFILES += packaging/$(PACKAGE_VERSION)
packaging/$(PACKAGE_VERSION): always
	$(AM_V_at)$(MKDIR_P) packaging && $(HVD_SUBSTITUTE) $(srcdir)/packaging/modulefile.in >$@

# bash-completion looks for a file by the name of the command.
HVD_COMPLETED = hvd-info hvd-perf horovodrun
install-completion:
	$(MKDIR_P) '$(DESTDIR)$(completionsdir)'
	for name in $(HVD_COMPLETED); do \
	  $(INSTALL_DATA) $(srcdir)/packaging/completion.bash '$(DESTDIR)$(completionsdir)'/$$name || exit 1; \
	done
uninstall-completion:
	for name in $(HVD_COMPLETED); do rm -f '$(DESTDIR)$(completionsdir)'/$$name; done
.PHONY: install-completion uninstall-completion
