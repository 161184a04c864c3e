# SPDX-License-Identifier: Apache-2.0
# HVD_CHECK_MPI: MPI's C interface, compiled and linked with the ordinary compilers, so that mpicc never chooses one for us.
# Asked in turn: mpicc of PREFIX/bin or the PATH (Open MPI --showme, MPICH -compile_info), pkg-config's ompi-c.
AC_DEFUN([HVD_CHECK_MPI], [
HVD_WITH([mpi], [move data between nodes with MPI])
AC_ARG_VAR([MPICC], [MPI C compiler that is asked for flags, never run to compile])
MPI_CPPFLAGS=; MPI_LIBS=
AS_IF([test "x$with_mpi" != xno], [
  AS_IF([test -n "$hvd_mpi_prefix"],
    [AC_PATH_PROG([MPICC], [mpicc], [], [$hvd_mpi_prefix/bin])],
    [AC_PATH_PROG([MPICC], [mpicc])])
  AC_MSG_CHECKING([for MPI's flags])
  HVD_PKG_EXISTS([mpi], [ompi-c], [hvd_mpi_module=ompi-c], [hvd_mpi_module=])
  hvd_mpi_from=
  AS_IF([test -n "$MPICC" && "$MPICC" --showme:compile >/dev/null 2>&1],
      [MPI_CPPFLAGS=`"$MPICC" --showme:compile`
       MPI_LIBS=`"$MPICC" --showme:link`
       hvd_mpi_from=$MPICC],
    [test -n "$MPICC" && "$MPICC" -compile_info >/dev/null 2>&1],
      [MPI_CPPFLAGS=`"$MPICC" -compile_info | sed 's/^@<:@^ @:>@* //; s/ -c\b//'`
       MPI_LIBS=`"$MPICC" -link_info | sed 's/^@<:@^ @:>@* //'`
       hvd_mpi_from=$MPICC],
    [test -n "$hvd_mpi_module"],
      [MPI_CPPFLAGS=`PKG_CONFIG_PATH=$hvd_pkg_path $PKG_CONFIG --cflags ompi-c`
       MPI_LIBS=`PKG_CONFIG_PATH=$hvd_pkg_path $PKG_CONFIG --libs ompi-c`
       hvd_mpi_from=ompi-c.pc])
  AC_MSG_RESULT([${hvd_mpi_from:-not found}])
  # The C++ bindings of old MPIs would drag in their own library.
  MPI_CPPFLAGS="$MPI_CPPFLAGS -DOMPI_SKIP_MPICXX=1 -DMPICH_SKIP_MPICXX=1"
  hvd_linked=no
  AS_IF([test -n "$hvd_mpi_from"], [
    AC_MSG_CHECKING([whether a program that calls MPI links])
    HVD_TRY_LINK([$MPI_CPPFLAGS], [$MPI_LIBS], [mpi.h], [MPI_Finalize()])
    AC_MSG_RESULT([$hvd_linked])
  ])
  AS_IF([test $hvd_linked = yes],
    [hvd_mpi_version=`printf '%s\n' '#include <mpi.h>' \
       'hvd_version Open MPI OMPI_MAJOR_VERSION.OMPI_MINOR_VERSION.OMPI_RELEASE_VERSION MPICH_VERSION' |
       $CPP $MPI_CPPFLAGS - 2>/dev/null | sed -n '/^hvd_version/{s/^hvd_version //;s/ *MPICH_VERSION//;s/Open MPI OMPI_.*VERSION */MPICH /;s/ \. /./g;s/"//g;p;}'`
     HVD_FOUND([mpi], [${hvd_mpi_version:-MPI}, flags from $hvd_mpi_from])],
    [MPI_CPPFLAGS=; MPI_LIBS=
     HVD_MISSING([mpi], [mpi.h and its library], [Debian has them in libopenmpi-dev])])
])
AC_SUBST([MPI_CPPFLAGS])
AC_SUBST([MPI_LIBS])
AM_CONDITIONAL([HAVE_MPI], [test $hvd_have_mpi = yes])
AS_IF([test $hvd_have_mpi = yes], [AC_DEFINE([HVD_HAVE_MPI], [1], [MPI's C interface is there])])
])
