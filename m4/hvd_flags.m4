# SPDX-License-Identifier: Apache-2.0
# Flags of every object: language, warnings, visibility, sanitizers.

# HVD_DEFAULT_OPTIMISATION, before the compilers are looked for.
# A user who sets CXXFLAGS decides alone. Otherwise the library gets -O3 (its loops are what the project is about), and the
# tests -O1 (Catch2's headers are slow to compile).
AC_DEFUN([HVD_DEFAULT_OPTIMISATION], [
AC_BEFORE([$0], [AC_PROG_CC])
AC_BEFORE([$0], [AC_PROG_CXX])
HVD_OPT=; HVD_TEST_OPT=
AS_IF([test "x${CXXFLAGS+set}" = x], [CXXFLAGS=-g; HVD_OPT=-O3; HVD_TEST_OPT=-O1])
AS_IF([test "x${CFLAGS+set}" = x], [CFLAGS="-g -O2"])
AC_SUBST([HVD_OPT])
AC_SUBST([HVD_TEST_OPT])
])

# HVD_ARG_SANITIZER: the words of --enable-sanitizer, refused before anything is looked for.
AC_DEFUN([HVD_ARG_SANITIZER], [
AC_ARG_ENABLE([sanitizer],
  [AS_HELP_STRING([--enable-sanitizer=LIST], [compile with sanitizers: address, thread, undefined, or several with commas])],
  [], [enable_sanitizer=no])
AS_CASE([",$enable_sanitizer,"],
  [,no,|,,], [],
  [,yes,], [AC_MSG_ERROR([--enable-sanitizer needs a list, such as address,undefined])],
  [*,address,*thread,*|*,thread,*address,*],
    [AC_MSG_ERROR([--enable-sanitizer: address and thread exclude each other; make two builds])],
  [hvd_saved_ifs=$IFS; IFS=,
   for hvd_word in $enable_sanitizer; do
     AS_CASE([$hvd_word], [address|thread|undefined], [],
       [AC_MSG_ERROR([--enable-sanitizer: "$hvd_word" is none of address, thread, undefined])])
   done
   IFS=$hvd_saved_ifs])
])

AC_DEFUN([HVD_FLAGS], [
AC_ARG_ENABLE([werror],
  [AS_HELP_STRING([--enable-werror], [treat warnings as errors (for developers and CI)])], [], [enable_werror=no])
HVD_WARNINGS="-Wall -Wextra"
AS_IF([test "x$enable_werror" = xyes], [HVD_WARNINGS="$HVD_WARNINGS -Werror"])
HVD_SANITIZER=
AS_CASE([$enable_sanitizer],
  [no|''], [],
  [HVD_SANITIZER="-fsanitize=$enable_sanitizer -fno-omit-frame-pointer"
   AC_MSG_CHECKING([whether $CXX can link with $HVD_SANITIZER])
   AC_LANG_PUSH([C++])
   hvd_saved_cxxflags=$CXXFLAGS; CXXFLAGS="$CXXFLAGS $HVD_SANITIZER"
   AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])],
     [AC_MSG_RESULT([no])
      AC_MSG_ERROR([--enable-sanitizer=$enable_sanitizer: $CXX cannot link with it; see config.log])])
   # With sanitizers gcc takes libstdc++'s own variables for uninitialized (gcc bug 105562, in 12 and 13).
   AC_MSG_CHECKING([whether $CXX knows -Wmaybe-uninitialized])
   CXXFLAGS="$hvd_saved_cxxflags -Werror -Wmaybe-uninitialized"
   AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
     [AC_MSG_RESULT([yes]); HVD_SANITIZER="$HVD_SANITIZER -Wno-maybe-uninitialized"], [AC_MSG_RESULT([no])])
   CXXFLAGS=$hvd_saved_cxxflags
   AC_LANG_POP([C++])])
AC_LANG_PUSH([C++])
AC_MSG_CHECKING([whether $CXX accepts -std=c++17])
hvd_saved_cxxflags=$CXXFLAGS; CXXFLAGS="$CXXFLAGS -std=c++17"
AC_COMPILE_IFELSE([AC_LANG_SOURCE([[#include <optional>
#include <string_view>
std::optional<std::string_view> f() { if constexpr (sizeof(int) > 1) return "x"; return {}; }]])],
  [AC_MSG_RESULT([yes])],
  [AC_MSG_RESULT([no]); AC_MSG_ERROR([a C++17 compiler is needed; Debian has one in g++])])
CXXFLAGS=$hvd_saved_cxxflags
AC_LANG_POP([C++])
AC_SUBST([HVD_WARNINGS])
AC_SUBST([HVD_SANITIZER])
AM_CONDITIONAL([SANITIZED], [test -n "$HVD_SANITIZER"])
# ccache does not keep what was compiled with one, unless it is told to.
hvd_precompiled=$GXX
case $CXX in *ccache* | *clang*) hvd_precompiled=no ;; esac
AM_CONDITIONAL([PRECOMPILED_HEADER], [test "$hvd_precompiled" = yes])
])
