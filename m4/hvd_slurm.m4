# SPDX-License-Identifier: Apache-2.0
# HVD_CHECK_SLURM: the headers a SPANK plugin is compiled with. Never -lslurm: Slurm's symbols come from the process that
# loads the plugin. Debian ships no slurm.pc.
AC_DEFUN([HVD_CHECK_SLURM], [
HVD_WITH([slurm], [build the SPANK plugin with Slurm's headers])
AC_ARG_WITH([slurm-plugindir],
  [AS_HELP_STRING([--with-slurm-plugindir=DIR], [where spank_horovod.so is installed (default: LIBDIR/slurm)])],
  [AS_CASE([$withval], [yes|no|''], [AC_MSG_ERROR([--with-slurm-plugindir needs a directory])],
           [slurmplugindir=$withval])],
  [slurmplugindir='$(libdir)/slurm'])
AC_SUBST([slurmplugindir])
SLURM_CPPFLAGS=
AS_IF([test "x$with_slurm" != xno], [
  # A header that is not under PREFIX must not be found elsewhere.
  AS_IF([test -n "$hvd_slurm_prefix"],
    [SLURM_CPPFLAGS="-I$hvd_slurm_prefix/include"
     test -e "$hvd_slurm_prefix/include/slurm/spank.h" || SLURM_CPPFLAGS="-include $hvd_slurm_prefix/include/slurm/spank.h"])
  hvd_saved_cppflags=$CPPFLAGS; CPPFLAGS="$CPPFLAGS $SLURM_CPPFLAGS"
  AC_MSG_CHECKING([for slurm/spank.h])
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <slurm/slurm.h>
#include <slurm/spank.h>]], [[spank_t s = 0; return spank_remote(s);]])],
    [hvd_slurm_version=`printf '%s\n' '#include <slurm/slurm_version.h>' 'SLURM_VERSION_NUMBER' |
       $CPP -P $CPPFLAGS - 2>/dev/null | tail -n 1`
     hvd_slurm_version=`printf '%d.%02d.%d' $(( hvd_slurm_version >> 16 )) $(( (hvd_slurm_version >> 8) & 255 )) $(( hvd_slurm_version & 255 ))`
     hvd_slurm_where=`printf '%s\n' '#include <slurm/spank.h>' | $CPP $CPPFLAGS - 2>/dev/null |
       sed -n 's/^# @<:@0-9@:>@* "\(.*\)\/spank\.h".*/\1/p' | sed -n 1p`
     AC_MSG_RESULT([yes, Slurm $hvd_slurm_version])
     HVD_FOUND([slurm], [Slurm $hvd_slurm_version headers in $hvd_slurm_where])],
    [AC_MSG_RESULT([no])
     SLURM_CPPFLAGS=
     HVD_MISSING([slurm], [slurm/spank.h], [Debian has it in libslurm-dev])])
  CPPFLAGS=$hvd_saved_cppflags
])
AC_SUBST([SLURM_CPPFLAGS])

# The plugin carries its own libstdc++: slurmd and srun have none, and a node must not have to.
AS_IF([test $hvd_have_slurm = yes], [
  AC_MSG_CHECKING([for a static libstdc++])
  hvd_libstdcxx_a=`$CXX -print-file-name=libstdc++.a`
  AS_CASE([$hvd_libstdcxx_a],
    [*/*], [AC_MSG_RESULT([$hvd_libstdcxx_a])],
    [AC_MSG_RESULT([no])
     HVD_MISSING([slurm], [libstdc++.a], [it comes with g++ in Debian and in libstdc++-static in Fedora])])
])
AM_CONDITIONAL([HAVE_SLURM], [test $hvd_have_slurm = yes])
AS_IF([test $hvd_have_slurm = yes], [AC_DEFINE([HVD_HAVE_SLURM], [1], [Slurm's SPANK headers are there])])
])
