#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Is what `make install` left behind what a site needs? `make installcheck` runs this and says where things are;
# tests/run.sh runs that. Prints TAP. It reads installed files alone, none of the build.
#
#   DESTDIR              where an installation for a package has been put, or nothing
#   prefix, libdir, includedir, bindir, mandir, docdir, slurmplugindir, plugstackdir, modulefilesdir, completionsdir
#   programs, pages      the programs and manual pages, as they are called where they are built
#   plugin               yes if the SPANK plugin was built
#   CC, sanitizer        the C compiler, maybe with arguments, and what it needs for a library with sanitizers
#   version              what was built
#
# shellcheck disable=SC2154 # variables of the environment
# shellcheck disable=SC2317 # what looks unreachable is called by its name
set -uo pipefail

# shellcheck source=tests/completion.bash
. "${BASH_SOURCE[0]%/*}/completion.bash"
at=${DESTDIR:-}
read -ra compiler <<<"$CC $sanitizer"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
number=0 bad=0
export LD_LIBRARY_PATH=$at$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PKG_CONFIG_PATH=$at$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$at

main() {
  check 'libhvd.so exports the C ABI alone' exports_only "$libdir/libhvd.so" '^hvd_'
  check 'libhvd.so needs nothing of CUDA or NCCL' needs_no_gpu_library
  check 'hvd.h is plain C99, and C++' header_is_plain
  check 'hvd.pc has the version and names what is installed' pc_is_true
  check 'a C program builds with what hvd.pc says, runs, and has that version' builds_with_pkg_config
  check 'there is no static library and nothing of libtool'"'"'s beside the plugin' no_surplus
  # A sanitizer's library would have to be loaded before Python.
  [[ -n $sanitizer ]] || check 'the Python package loads the library that is installed with it' python_finds_the_library
  check 'every program tells its version' programs_tell_their_version
  check 'every manual page can be read' pages_can_be_read
  check 'the modulefile shows the way to what is installed' modulefile_is_true
  check 'bash completes what is typed' completes_lines
  check 'bash completes every option that --help has' completes_every_option
  check 'bash completes every word that an option takes' completes_every_word
  if [[ $plugin == yes ]]; then
    check 'the plugin exports what Slurm looks for alone' exports_only "$slurmplugindir/spank_horovod.so" \
      '^(plugin_(name|type|version)|spank_plugin_version|slurm_spank_[a-z_]+)$'
    # A sanitizer has a library of its own, which srun would have to preload.
    [[ -n $sanitizer ]] || check 'the plugin needs libc alone' plugin_needs_libc_alone
    check 'the command-line filter for sites that select PMIx by it is beside the documents' test -s "$at$docdir/cli_filter.lua"
    check 'the line for plugstack.conf names the plugin and the Python package' plugstack_names_the_plugin
  fi
  printf '1..%d\n' "$number"
  [[ $bad == 0 ]]
}

# check NAME COMMAND...: one test; what it says is shown if it fails.
check() {
  local name=$1
  shift
  number=$((number + 1))
  if "$@" >"$scratch/log" 2>&1 </dev/null; then
    printf 'ok %d %s\n' "$number" "$name"
  else
    printf 'not ok %d %s\n' "$number" "$name"
    sed 's/^/# /' "$scratch/log"
    bad=$((bad + 1))
  fi
}

python_finds_the_library() {
  local code='from horovod.common import _library; print(_library.candidates()[0], _library.lib.hvd_version().decode())'
  [[ $(PYTHONPATH=$at$libdir/horovod/python python3 -B -c "$code") == "$(realpath "$at$libdir")/libhvd.so.0 $version" ]]
}

exports_only() {
  local names
  names=$(nm -D --defined-only "$at$1" | awk '$2 != "A" {sub("@.*", "", $3); print $3}') || return
  echo "$names"
  [[ -n $names ]] && ! grep -Evq "$2" <<<"$names"
}

# It is one library for nodes with and without GPUs.
needs_no_gpu_library() {
  local needed
  needed=$(readelf -d "$at$libdir/libhvd.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p') || return
  echo "$needed"
  [[ -n $needed ]] && ! grep -Eq '^lib(cu|nccl|nv)' <<<"$needed"
}

header_is_plain() {
  "${compiler[@]}" -std=c99 -pedantic -Wall -Wextra -Werror -fsyntax-only -x c "$at$includedir/hvd.h" &&
    "${compiler[@]}" -std=c++11 -pedantic -Wall -Wextra -Werror -fsyntax-only -x c++ "$at$includedir/hvd.h"
}

# Also when somebody asks for static linking, which is not offered.
pc_is_true() {
  local libs
  [[ $(pkg-config --modversion hvd) == "$version" ]] || return
  libs=$(pkg-config --libs hvd) && echo "$libs" && [[ $libs == *-lhvd* ]] || return
  [[ $(pkg-config --static --libs hvd) == "$libs" ]] || return
  [[ $(PKG_CONFIG_SYSROOT_DIR='' pkg-config --variable=libdir hvd) == "$libdir" ]] || return
  [[ $(PKG_CONFIG_SYSROOT_DIR='' pkg-config --variable=includedir hvd) == "$includedir" ]]
}

builds_with_pkg_config() {
  local flags
  flags=$(pkg-config --cflags --libs hvd) || return
  printf '%s\n' '#include <hvd.h>' '#include <stdio.h>' \
    'int main(void) { return puts(hvd_version()) < 0; }' >"$scratch/program.c"
  # shellcheck disable=SC2086 # flags are words
  "${compiler[@]}" -o "$scratch/program" "$scratch/program.c" $flags || return
  "$scratch/program" | tee "$scratch/said" && [[ $(<"$scratch/said") == "$version" ]]
}

no_surplus() {
  local file found=0
  for file in "$at$libdir"/libhvd.a "$at$slurmplugindir"/spank_horovod.{a,la}; do
    [[ ! -e $file ]] || { echo "$file" && found=1; }
  done
  return "$found"
}

programs_tell_their_version() {
  local program said
  for program in $programs; do
    said=$("$at$bindir/${program##*/}" --version) && echo "$program: $said" && [[ $said == *"$version"* ]] || return
  done
}

pages_can_be_read() {
  local page file
  for page in $pages; do
    file=$at$mandir/man${page##*.}/${page##*/}
    grep -q '^\.Sh NAME' "$file" || return
    ! grep -E '@[A-Za-z_]+@' "$file" || return
    ! command -v mandoc >/dev/null || mandoc -T utf8 "$file" >/dev/null || return
  done
  # hvd(3) is found under the name of every function that the header has.
  local function functions=0
  while read -r function; do
    file=$at$mandir/man3/$function.3
    [[ $(<"$file") == '.so man3/hvd.3' && -s $at$mandir/man3/hvd.3 ]] || return
    functions=$((functions + 1))
  done < <(grep -oE '\bhvd_[a-z_]+\(' "$at$includedir/hvd.h" | tr -d '(' | sort -u)
  ((functions > 40))
}

# As the two programs that read it would: in Tcl, with their commands.
modulefile_is_true() {
  local file=$at$modulefilesdir/horovod/$version name value
  [[ $(head -n 1 "$file") == '#%Module1.0' ]] && ! grep -E '@[A-Za-z_]+@' "$file" || return
  if ! command -v tclsh >/dev/null; then
    grep -F "prepend-path PYTHONPATH {$libdir/horovod/python}" "$file"
    return
  fi
  modulefile=$file tclsh >"$scratch/module" <<'END' || return
foreach name {prepend-path append-path conflict module-whatis} {
  proc $name {args} "puts \[concat $name \$args]"
}
source $env(modulefile)
ModulesHelp
END
  cat "$scratch/module"
  [[ $(grep -c '^module-whatis .* '"$version" "$scratch/module") == 1 ]] &&
    grep -qx 'conflict horovod' "$scratch/module" || return
  while read -r name value; do
    grep -qx "prepend-path $name $value" "$scratch/module" && [[ -e $at$value ]] || return
  done <<END
PYTHONPATH $libdir/horovod/python
$([[ $prefix == /usr ]] || printf '%s\n' "PATH $bindir" "LD_LIBRARY_PATH $libdir" "PKG_CONFIG_PATH $libdir/pkgconfig" "MANPATH $mandir")
END
}

plugin_needs_libc_alone() {
  local needed
  needed=$(readelf -d "$at$slurmplugindir/spank_horovod.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p') || return
  echo "$needed"
  [[ -n $needed ]] && ! grep -Evq '^(libc|libm|ld-linux-[a-z0-9-]+)\.so\.[0-9]+$' <<<"$needed"
}

plugstack_names_the_plugin() {
  local word file rest
  read -r word file rest < <(grep -v '^#' "$at$plugstackdir/horovod.conf") || return
  echo "$word $file $rest"
  [[ $word == optional && $file == "$slurmplugindir/spank_horovod.so" && -r $at$file ]] || return
  [[ $rest == "python-dir=$libdir/horovod/python" && -r $at${rest#*=}/horovod/__init__.py ]]
}

main
