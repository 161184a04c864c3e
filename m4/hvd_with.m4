# SPDX-License-Identifier: Apache-2.0
# One way to switch every optional feature: --with-NAME=yes|no|check|PREFIX.
#
# Each HVD_CHECK_NAME macro of this directory calls HVD_WITH, looks, and ends in HVD_FOUND or HVD_MISSING.
# hvd_have_NAME is then yes or no, and hvd_NAME_says is the feature's line in the summary.

# HVD_WITH(NAME, WHAT)
# with_NAME is yes, no, check or yes with hvd_NAME_prefix set.
AC_DEFUN([HVD_WITH], [
AC_ARG_WITH([$1], [AS_HELP_STRING([--with-$1=yes|no|check|PREFIX], [$2 (default: check)])], [], [with_$1=check])
hvd_$1_prefix=
hvd_have_$1=no
hvd_$1_says="no (--without-$1)"
AS_CASE([$with_$1],
  [yes|no|check], [],
  [/*], [AS_IF([test -d "$with_$1"], [], [AC_MSG_ERROR([--with-$1: "$with_$1" is not a directory])])
         hvd_$1_prefix=$with_$1; with_$1=yes],
  [AC_MSG_ERROR([--with-$1 is "$with_$1", not yes, no, check or an absolute directory])])
])

# HVD_FOUND(NAME, SAYS)
AC_DEFUN([HVD_FOUND], [hvd_have_$1=yes; hvd_$1_says="yes ($2)"])

# HVD_MISSING(NAME, WHAT IS MISSING, REMEDY)
# An error if the user asked for the feature, a line in the summary if not.
AC_DEFUN([HVD_MISSING], [
hvd_have_$1=no
hvd_$1_says="no ($2; $3)"
AS_IF([test "x$with_$1" = xyes],
  [AC_MSG_ERROR([--with-$1: $2 not found${hvd_$1_prefix:+ under $hvd_$1_prefix}; $3])])
])

# HVD_PKG_PREFIX(NAME)
# Sets hvd_pkg_path so that pkg-config looks under the feature's PREFIX first.
AC_DEFUN([HVD_PKG_PREFIX], [
hvd_pkg_path=$PKG_CONFIG_PATH
AS_IF([test -n "$hvd_$1_prefix"], [
  for hvd_dir in share/pkgconfig "lib/`$CC -print-multiarch 2>/dev/null`/pkgconfig" lib/pkgconfig lib64/pkgconfig; do
    hvd_pkg_path="$hvd_$1_prefix/$hvd_dir${hvd_pkg_path:+:$hvd_pkg_path}"
  done])
])

# HVD_PKG_EXISTS(NAME, MODULE, IF-YES, IF-NO)
# A module found elsewhere does not count if the user gave a PREFIX.
AC_DEFUN([HVD_PKG_EXISTS], [
HVD_PKG_PREFIX([$1])
hvd_pkg_dir=
AS_IF([PKG_CONFIG_PATH=$hvd_pkg_path $PKG_CONFIG --exists $2 2>&AS_MESSAGE_LOG_FD],
  [hvd_pkg_dir=`PKG_CONFIG_PATH=$hvd_pkg_path $PKG_CONFIG --variable=pcfiledir $2`])
AS_CASE([$hvd_pkg_dir], ["$hvd_$1_prefix"/*], [$3], [$4])
])

# HVD_TRY_LINK(CPPFLAGS, LIBS, HEADER, CALL, IF-YES, IF-NO)
AC_DEFUN([HVD_TRY_LINK], [
hvd_saved_cppflags=$CPPFLAGS; hvd_saved_libs=$LIBS
CPPFLAGS="$CPPFLAGS $1"; LIBS="$2 $LIBS"
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <$3>]], [[$4;]])], [hvd_linked=yes], [hvd_linked=no])
CPPFLAGS=$hvd_saved_cppflags; LIBS=$hvd_saved_libs
AS_IF([test $hvd_linked = yes], [$5], [$6])
])

# HVD_PKG_LIBRARY(NAME, VAR, MODULE, HEADER, CALL, LIBRARY, DEBIAN-PACKAGE)
# A library that pkg-config knows as MODULE; without a .pc file, PREFIX/include and -lLIBRARY are tried. A header that is
# not under PREFIX must not be found elsewhere: then no library is right.
AC_DEFUN([HVD_PKG_LIBRARY], [
$2_CPPFLAGS=; $2_LIBS=; hvd_$1_version=
AS_IF([test "x$with_$1" != xno], [
  AC_MSG_CHECKING([for $3])
  HVD_PKG_EXISTS([$1], [$3],
    [$2_CPPFLAGS=`PKG_CONFIG_PATH=$hvd_pkg_path $PKG_CONFIG --cflags $3`
     $2_LIBS=`PKG_CONFIG_PATH=$hvd_pkg_path $PKG_CONFIG --libs $3`
     hvd_$1_version=`PKG_CONFIG_PATH=$hvd_pkg_path $PKG_CONFIG --modversion $3`],
    [AS_IF([test -n "$hvd_$1_prefix"],
       [$2_CPPFLAGS="-I$hvd_$1_prefix/include"
        $2_LIBS="-L$hvd_$1_prefix/lib -Wl,-rpath,$hvd_$1_prefix/lib -l$6"
        test -e "$hvd_$1_prefix/include/$4" || $2_LIBS=-lnot-found],
       [$2_LIBS="-l$6"])])
  HVD_TRY_LINK([$$2_CPPFLAGS], [$$2_LIBS], [$4], [$5],
    [AC_MSG_RESULT([yes${hvd_$1_version:+, $hvd_$1_version}])
     HVD_FOUND([$1], [$3${hvd_$1_version:+ $hvd_$1_version}])],
    [AC_MSG_RESULT([no])
     $2_CPPFLAGS=; $2_LIBS=
     HVD_MISSING([$1], [$4 and lib$6], [Debian has them in $7])])
])
AC_SUBST([$2_CPPFLAGS])
AC_SUBST([$2_LIBS])
])
