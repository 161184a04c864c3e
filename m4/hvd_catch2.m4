# SPDX-License-Identifier: Apache-2.0
# HVD_CHECK_CATCH2: the unit tests' framework, 2.x (one header) or 3.x (headers and a library with main).
AC_DEFUN([HVD_CHECK_CATCH2], [
CATCH2_CPPFLAGS=; CATCH2_LIBS=
hvd_have_catch2=no
hvd_catch2_says="no (Catch2 not found; Debian has it in catch2)"
AC_LANG_PUSH([C++])
AC_MSG_CHECKING([for Catch2])
AS_IF([$PKG_CONFIG --exists catch2-with-main 2>&AS_MESSAGE_LOG_FD],
    [hvd_catch2_module=catch2-with-main],
  [$PKG_CONFIG --exists catch2 2>&AS_MESSAGE_LOG_FD],
    [hvd_catch2_module=catch2],
  [hvd_catch2_module=])
AS_IF([test -n "$hvd_catch2_module"],
  [CATCH2_CPPFLAGS=`$PKG_CONFIG --cflags $hvd_catch2_module`
   CATCH2_LIBS=`$PKG_CONFIG --libs $hvd_catch2_module`
   hvd_catch2_version=`$PKG_CONFIG --modversion $hvd_catch2_module`])
hvd_saved_cppflags=$CPPFLAGS; CPPFLAGS="$CPPFLAGS $CATCH2_CPPFLAGS"
AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#include <catch2/catch_version_macros.hpp>]])], [hvd_catch2_major=3],
  [AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#include <catch2/catch.hpp>]])], [hvd_catch2_major=2], [hvd_catch2_major=])])
CPPFLAGS=$hvd_saved_cppflags
AS_IF([test "x$hvd_catch2_major" = x3 && test -z "$CATCH2_LIBS"], [CATCH2_LIBS="-lCatch2Main -lCatch2"])
AS_IF([test "x$hvd_catch2_major" = x2], [CATCH2_LIBS=])
AS_IF([test -n "$hvd_catch2_major"],
  [AC_MSG_RESULT([yes, ${hvd_catch2_version:-$hvd_catch2_major}])
   hvd_have_catch2=yes
   hvd_catch2_says="yes (Catch2 ${hvd_catch2_version:-$hvd_catch2_major})"
   AC_DEFINE_UNQUOTED([HVD_CATCH2_MAJOR], [$hvd_catch2_major], [major version of Catch2])],
  [AC_MSG_RESULT([no])])
AC_LANG_POP([C++])
AC_SUBST([CATCH2_CPPFLAGS])
AC_SUBST([CATCH2_LIBS])
AM_CONDITIONAL([HAVE_CATCH2], [test $hvd_have_catch2 = yes])
])
