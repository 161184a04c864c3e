#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
#
# The modulefile in both programs that read it. Debian lets one of them be installed; here both are unpacked.
#
# shellcheck disable=SC2016 # what is in single quotes is for shells with modules
# shellcheck disable=SC2154 # variables of bats and of helpers

load helpers

use="module use '$HVD_PREFIX/share/modulefiles'"

setup_file() {
  cd "$BATS_FILE_TMPDIR" || return
  apt-get -q download environment-modules lmod lua5.3 lua-bit32 lua-filesystem lua-json lua-lpeg lua-posix lua-term tcl \
    libtcl8.6 tcl8.6 >&2 || return
  local package
  for package in ./*.deb; do dpkg-deb -x "$package" / || return; done
  cluster_up --prefix "$HVD_PREFIX" >&2
}

teardown_file() { "$cluster" down; }

@test "module load horovod shows the way to tools, library, Python package and manual, beside the system's" {
  for init in "${module_systems[@]}"; do
    run -0 with_modules "$init" "$use && module load horovod"'
      hvd-info --version
      pkg-config --modversion hvd
      /usr/bin/python3 -B -c "from horovod.common import _library as l; print(l.lib.hvd_version().decode(), l.__file__)"
      echo "$LD_LIBRARY_PATH $MANPATH"'
    echo "$init: $output"
    version=${lines[0]}
    [[ $version == [0-9]*.* ]]
    [ "${lines[1]}" = "$version" ]
    [ "${lines[2]}" = "$version $HVD_PREFIX/lib/horovod/python/horovod/common/_library.py" ]
    [[ ${lines[3]} == "$HVD_PREFIX/lib $HVD_PREFIX/share/man":* ]]
  done
}

@test "module unload horovod leaves the environment as it was" {
  for init in "${module_systems[@]}"; do
    run -0 with_modules "$init" "$use"'
      paths() { env | grep -E "^(PATH|.*_PATH|MANPATH|PYTHONPATH|HOROVOD.*|HVD.*)=" | grep -v ^__ | sed -E "s|:+\$|:|" | sort; }
      before=$(paths) && module load horovod && [[ $(paths) != "$before" ]] && module unload horovod || exit
      diff <(paths) - <<<"$before"'
  done
}

@test "module help and module whatis tell what it is" {
  for init in "${module_systems[@]}"; do
    run -0 with_modules "$init" "$use"' && module help horovod 2>&1 && module whatis horovod 2>&1'
    grep -q 'srun --horovod=help' <<<"$output"
    grep -q 'pkg-config --cflags --libs hvd' <<<"$output"
    grep -Eq 'horovod/[0-9.]+ *: .*slurm-horovod' <<<"$output"
  done
}

@test "of two versions one is loaded" {
  mkdir -p "$BATS_TEST_TMPDIR/horovod"
  cp "$HVD_PREFIX"/share/modulefiles/horovod/* "$BATS_TEST_TMPDIR/horovod/0.0.1"
  for init in "${module_systems[@]}"; do
    run with_modules "$init" "$use && module use $BATS_TEST_TMPDIR"'
      module load horovod/0.0.1; module load horovod/'"$("$HVD_PREFIX/bin/hvd-info" --version)"'; module -t list 2>&1'
    echo "$output"
    [ "$(grep -cE '^horovod/[0-9.]+' <<<"$output")" = 1 ]
  done
}

@test "after module load horovod, srun --horovod runs the tools on all nodes" {
  for init in "${module_systems[@]}"; do
    four_ranks_reduce env PATH=/usr/bin:/bin bash -c ". $init && $use"' && module load horovod && exec "$@"' bash
  done
}
